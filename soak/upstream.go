package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// content is n bytes that a name determines: letters, so that they can be compressed.
func content(name string, n int) []byte {
	h := fnv.New64a()
	io.WriteString(h, name)
	b := make([]byte, n)
	rand.NewChaCha8([32]byte(fmt.Appendf(nil, "%032x", h.Sum64()))).Read(b)
	for i := range b {
		b[i] = 'a' + b[i]&15
	}
	return b
}

// sum names bytes.
func sum(b []byte) string {
	h := sha256.Sum256(b)
	return fmt.Sprintf("%d %s", len(b), hex.EncodeToString(h[:]))
}

// Fields by which answers are told apart.
const (
	idField   = "X-Soak-Id"   // of a request, and of its answer
	madeField = "X-Soak-Made" // when an answer was made: Unix milliseconds
)

// origin is the application, behind HTTP and FastCGI. Its answer is determined by the
// last element of the path and the query: n bytes of content, in pieces or with a
// length; the sum of what was posted; or n events.
func origin(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	n, _ := strconv.Atoi(r.FormValue("n"))
	h := w.Header()
	h.Set(idField, r.Header.Get(idField))
	h.Set(madeField, strconv.FormatInt(time.Now().UnixMilli(), 10))
	switch {
	case r.Method == "POST" || r.Method == "PUT":
		got, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		h.Set("Content-Type", "text/plain")
		io.WriteString(w, sum(got))
	case name == "events":
		h.Set("Content-Type", "text/event-stream")
		for i := range n {
			fmt.Fprintf(w, "data: event %d of %s\n\n", i, r.FormValue("of"))
			http.NewResponseController(w).Flush()
			select {
			case <-time.After(50 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
	default:
		if strings.HasPrefix(name, "kept") {
			h.Set("Cache-Control", fmt.Sprintf("public, max-age=%.0f", cacheTime.Seconds()))
			h.Set("X-LiteSpeed-Cache-Control", fmt.Sprintf("public, max-age=%.0f", cacheTime.Seconds()))
		}
		h.Set("Content-Type", "text/plain")
		body := content(name, n)
		if r.FormValue("pieces") == "" {
			h.Set("Content-Length", strconv.Itoa(n))
			w.Write(body)
			return
		}
		for len(body) > 0 {
			m := min(len(body), 5000)
			w.Write(body[:m])
			http.NewResponseController(w).Flush()
			body = body[m:]
		}
	}
}
