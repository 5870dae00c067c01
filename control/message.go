package control

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Refusal is an answer that is none: what a command could not do, and why.
type Refusal struct {
	Status  int    `json:"-"`
	Token   string `json:"error"` // stable: bad_request, refused, not_found, method_not_allowed
	Message string `json:"message,omitempty"`
}

// unreadable begins the message about a command that the server cannot read.
const unreadable = "the request cannot be read: "

// otherVersion is what is behind a command that the server does not understand.
const otherVersion = "; it is of another version than this program (httpjet status, httpjet version), or this is not its control socket"

func (r *Refusal) Error() string {
	switch {
	case strings.HasPrefix(r.Message, unreadable):
		return r.Message + otherVersion
	case r.Message != "":
		return r.Message
	case r.Status == http.StatusForbidden:
		return "only root and the server's own user may ask"
	case r.Status == http.StatusNotFound, r.Status == http.StatusMethodNotAllowed:
		return "the running server does not know this command" + otherVersion
	}
	return fmt.Sprintf("the server answers %d %s", r.Status, r.Token)
}

// Read takes the body of a command into in, which has a field for each name that
// may be there. Its error is a *Refusal.
func Read(r *http.Request, in any) error {
	dec := json.NewDecoder(r.Body) // bounded by the server
	dec.DisallowUnknownFields()
	err := dec.Decode(in)
	if err == nil {
		if _, err = dec.Token(); err == io.EOF {
			return nil
		}
		err = fmt.Errorf("more than one value")
	}
	return &Refusal{http.StatusBadRequest, "bad_request", unreadable + err.Error()}
}

// Answer ends a command with a document, or with a *Refusal; any other error is
// one of status 409.
func Answer(w http.ResponseWriter, out any, err error) {
	status := http.StatusOK
	if err != nil {
		r, ok := err.(*Refusal)
		if !ok {
			r = &Refusal{http.StatusConflict, "refused", err.Error()}
		}
		status, out = r.Status, r
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.Encode(out) // a client that went away is nobody's concern here
}
