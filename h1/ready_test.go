package h1

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"httpjet/exchange"
)

// A head whose fields are ready is the one that it would be without that, whatever is
// edited, and how often it is sent: also if it has fields of the connection, or some that
// cannot be written.
func TestHeadsOfReadyFields(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	fields := []exchange.Field{
		{Name: "Content-Type", Value: "text/plain"}, {Name: "Date", Value: "Thu, 01 Jan 1970 00:00:00 GMT"}, {Name: "Server", Value: "other"},
		{Name: "Connection", Value: "close"}, {Name: "Content-Length", Value: "7"}, {Name: "Vary", Value: "Cookie"}, {Name: "Bad Name", Value: "x"},
		{Name: "X-Bad", Value: "a\r\nb"}, {Name: "vary", Value: "Origin"}, {Name: "Transfer-Encoding", Value: "chunked"}, {Name: "X-Empty"},
	}
	names := []string{"Content-Type", "Vary", "Date", "X-Bad", "Age", "Cache-Control"}
	used := 0
	for round := range 2000 {
		var list []exchange.Field
		for range r.IntN(8) {
			list = append(list, fields[r.IntN(len(fields))])
		}
		ready := exchange.NewReady(list)
		for range 3 {
			var a, b exchange.Response
			a.Status, b.Status = 200, 200
			a.Dated = r.IntN(2) == 0
			b.Dated = a.Dated
			a.Fields.AddReady(ready)
			for _, fd := range list {
				b.Fields.Add(fd.Name, fd.Value)
			}
			for range r.IntN(3) {
				name, how := names[r.IntN(len(names))], r.IntN(3)
				for _, f := range []*exchange.Fields{&a.Fields, &b.Fields} {
					switch how {
					case 0:
						f.Set(name, "set")
					case 1:
						f.Add(name, "added")
					case 2:
						f.Del(name)
					}
				}
			}
			if a.Fields.Ready() != nil {
				used++
			}
			fr := Framed{Length: 3, Connection: "keep-alive", Own: "Server: httpjet\r\n"}
			got, want := AppendResponseHead(nil, &a, fr), AppendResponseHead(nil, &b, fr)
			if string(got) != string(want) {
				t.Fatalf("round %d, %s:\n%s\nwant\n%s", round, fmt.Sprint(list), got, want)
			}
		}
	}
	if used == 0 {
		t.Error("no head was ready")
	}
}
