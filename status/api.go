package status

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// API answers the read-only documents of R-API-1 to R-API-6. It changes nothing.
// The management listener and the control socket share it.
type API struct {
	// State returns the process as it is. It is called for every answer.
	State func() State

	// Whole tells why a reload was refused and what does not serve in full. Else paths
	// of files, and values of the configuration such as addresses of peers, are left
	// out: whoever may ask how the server is need not know them.
	Whole bool
}

// Documents are the paths that an API answers.
var documents = map[string]func(*API, *http.Request) (int, any){
	"/readyz":           (*API).ready,
	"/healthz":          (*API).health,
	"/api/v1/status":    (*API).status,
	"/api/v1/upstreams": (*API).upstreams,
	"/api/v1/config":    (*API).config,
	"/api/v1/cache":     (*API).cache,
	"/api/v1/timelines": (*API).timelines,
}

// ServeHTTP answers GET and HEAD of a document, and 404 for any other path.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	document := documents[r.URL.Path]
	if document == nil {
		answer(w, http.StatusNotFound, `{"error":"not_found"}`)
		return
	}
	status, body := document(a, r)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.Encode(body) // a peer that went away is nobody's concern here
}

func (a *API) ready(*http.Request) (int, any) {
	s := a.State()
	d := readinessOf(&s)
	return ok(d.Status == "ready"), d
}

func (a *API) health(*http.Request) (int, any) {
	d := healthOf(a.State().Generation)
	return ok(d.Status == "ok"), d
}

func (a *API) status(*http.Request) (int, any) {
	s := a.State()
	d := statusOf(&s, time.Now())
	if !a.Whole {
		d.Generation.Reload.Error = discreet(d.Generation.Reload.Error)
		for i, why := range d.Generation.Degraded {
			d.Generation.Degraded[i] = discreet(why)
		}
		for i := range d.Apps { // what a program said is for who may read the log
			d.Apps[i].LastExit, d.Apps[i].Fault = "", ""
		}
	}
	return http.StatusOK, d
}

// A finding is its place and code, with what it says behind them.
var (
	findingText  = regexp.MustCompile(`^(.+?:\d+:\d+: \w+ [A-Z]-[A-Z0-9-]+): .*`)
	absolutePath = regexp.MustCompile(`(^|[\s"(=])/[^\s":,)]+`)
)

// discreet is a text of the server's without paths and values.
func discreet(text string) string {
	text = findingText.ReplaceAllString(strings.ReplaceAll(text, "\n", " "), "$1")
	return absolutePath.ReplaceAllString(text, "$1...")
}

func (a *API) upstreams(r *http.Request) (int, any) {
	q := r.URL.Query()
	return http.StatusOK, Upstreams{groupsOf(a.State().Generation, q.Get("scope"), q.Get("group"), true)}
}

func (a *API) config(*http.Request) (int, any) {
	s := a.State()
	return http.StatusOK, configOf(&s)
}

func ok(is bool) int {
	if is {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}
