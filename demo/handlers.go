package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"runtime"
	"strconv"
	"time"

	"github.com/gorilla/websocket"
)

// Bounds of what the backends take and give, whatever a visitor asks for.
const (
	maxBody   = 1 << 20 // bytes sent back by an echo
	maxBytes  = 1 << 30 // bytes of /app/bytes
	maxEvents = 10_000  // events of one stream
)

// application is the HTTP application. It is mounted below /app/ and sees the
// paths unshortened, as LiteSpeed sends them.
func application() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /app/hello", hello)
	mux.HandleFunc("/app/echo", echo)
	mux.HandleFunc("GET /app/events", events)
	mux.HandleFunc("GET /app/bytes", manyBytes)
	return mux
}

// hello answers with what the application learns of its visitor.
func hello(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.Encode(struct {
		Hello        string `json:"hello"`
		Application  string `json:"application"`
		Host         string `json:"host"`
		ForwardedFor string `json:"x-forwarded-for"`
		Proto        string `json:"x-forwarded-proto"`
		Via          string `json:"via"`
	}{
		r.FormValue("name"), "net/http, " + runtime.Version(), r.Host,
		r.Header.Get("X-Forwarded-For"), r.Header.Get("X-Forwarded-Proto"), r.Header.Get("Via"),
	})
}

// echo sends the body back.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the echo takes up to 1 MiB", http.StatusRequestEntityTooLarge)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "%s, %d bytes:\n%s\n", r.Method, len(body), body)
}

// events sends an event at once and then one per second, count of them or
// until the client leaves.
func events(w http.ResponseWriter, r *http.Request) {
	count := number(r, "count", maxEvents)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	rc := http.NewResponseController(w)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := int64(1); ; i++ {
		fmt.Fprintf(w, "id: %d\ndata: event %d of the demo\n\n", i, i)
		if rc.Flush() != nil || i == count {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// manyBytes sends n bytes with their length declared.
func manyBytes(w http.ResponseWriter, r *http.Request) {
	n := number(r, "n", maxBytes)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	chunk := bytes.Repeat([]byte("jet "), 16<<10)
	for n > 0 {
		c, err := w.Write(chunk[:min(n, int64(len(chunk)))])
		if err != nil {
			return
		}
		n -= int64(c)
	}
}

// number is the parameter name within 1..most; most if it is absent or no number.
func number(r *http.Request, name string, most int64) int64 {
	n, err := strconv.ParseInt(r.FormValue(name), 10, 64)
	if err != nil {
		return most
	}
	return min(max(n, 1), most)
}

// echoWebSocket sends messages back until the client closes; with the query
// "once" it says one word and closes, so that curl comes to an end.
func echoWebSocket(w http.ResponseWriter, r *http.Request) {
	// The zero Upgrader compares Origin with Host: it holds only if the relay
	// keeps Host.
	c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered
	}
	defer c.Close()
	c.SetReadLimit(maxBody)
	if r.URL.Query().Has("once") {
		c.WriteMessage(websocket.TextMessage, []byte("hello by WebSocket"))
		c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
		return
	}
	for {
		kind, text, err := c.ReadMessage()
		if err != nil {
			return
		}
		if err := c.WriteMessage(kind, text); err != nil {
			return
		}
	}
}

// showFastCGI shows the variables that make FastCGI what it is, and the body.
func showFastCGI(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the demo takes up to 1 MiB", http.StatusRequestEntityTooLarge)
		return
	}
	vars := fcgi.ProcessEnv(r)
	client, _, _ := net.SplitHostPort(r.RemoteAddr)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, v := range [][2]string{
		// net/http/fcgi turns these into the request and hides the originals,
		// SCRIPT_NAME and PATH_INFO among them.
		{"REQUEST_METHOD", r.Method},
		{"REQUEST_URI", r.URL.RequestURI()},
		{"CONTENT_LENGTH", strconv.FormatInt(max(r.ContentLength, 0), 10)},
		{"REMOTE_ADDR", client},
		{"DOCUMENT_ROOT", vars["DOCUMENT_ROOT"]},
		{"SCRIPT_FILENAME", vars["SCRIPT_FILENAME"]},
		{"PATH_TRANSLATED", vars["PATH_TRANSLATED"]},
		{"GATEWAY_INTERFACE", vars["GATEWAY_INTERFACE"]},
	} {
		fmt.Fprintf(w, "%s=%s\n", v[0], v[1])
	}
	if len(body) > 0 {
		fmt.Fprintf(w, "\n%s\n", body)
	}
}
