package front

import (
	"net/http"
	"sync/atomic"
	"time"

	"httpjet/h2"
)

// h2Counters count what goes wrong on HTTP/2 connections.
type h2Counters struct {
	resets  atomic.Int64           // streams that clients have reset
	refused atomic.Int64           // streams that we have reset because of what the client did
	ended   [h2.Codes]atomic.Int64 // connections that we have ended, by the code of the GOAWAY
}

// broken counts a connection that was ended with an error.
func (n *h2Counters) broken(c h2.Code) {
	if c < h2.Codes {
		n.ended[c].Add(1)
	}
}

// H2Stats is what goes wrong on HTTP/2 connections. All only grow.
type H2Stats struct {
	Resets  int64            // streams that clients have reset
	Refused int64            // streams reset because of what the client did, those beyond the limit included
	Ended   map[string]int64 // connections ended because of what the client did, by error code as docs/vocabulary.md has them
}

func (n *h2Counters) snapshot() H2Stats {
	s := H2Stats{Resets: n.resets.Load(), Refused: n.refused.Load(), Ended: map[string]int64{}}
	for i := range n.ended {
		if v := n.ended[i].Load(); v > 0 {
			s.Ended[h2.Code(i).String()] = v
		}
	}
	return s
}

// ownFieldsOf is ownLines as HTTP/2 has it.
type ownFieldsOf struct {
	second int64
	server string
	block  []byte
	alone  []byte // of server only, for responses that are Dated
}

// ownFields returns the coded fields Date and Server, which change once a second, and
// with a reload. They depend on no connection.
func (s *Server) ownFields(now time.Time, server string, dated bool) []byte {
	o := s.ownH2.Load()
	if o == nil || o.second != now.Unix() || o.server != server {
		o = &ownFieldsOf{second: now.Unix(), server: server}
		o.block = h2.AppendField(nil, "date", now.UTC().Format(http.TimeFormat))
		if server != "" {
			o.block = h2.AppendField(o.block, "server", server)
			o.alone = h2.AppendField(nil, "server", server)
		}
		s.ownH2.Store(o)
	}
	if dated {
		return o.alone
	}
	return o.block
}
