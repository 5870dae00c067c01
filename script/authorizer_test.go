package script

import (
	"slices"
	"testing"

	"httpjet/exchange"
	"httpjet/groups"
)

// FastCGI 1.0 §6.3, LSX 7.5: fields called Variable-NAME become variables of the
// request, but for those that only the server sets; nothing else of the answer does.
func TestAuthorizerSetsVariables(t *testing.T) {
	a := &app{body: "thrown away", fields: []exchange.Field{{Name: "Variable-TEAM", Value: "blue"}, {Name: "variable-OLD", Value: "new"},
		{Name: "Variable-REMOTE_USER", Value: "eve"}, {Name: "Variable-HTTP_X", Value: "eve"}, {Name: "Variable-", Value: "x"}, {Name: "Set-Cookie", Value: "x"}}}
	x, w := newExchange("/a/b", "Content-Type: text/plain")
	x.Req.Method, x.Req.Length = "POST", 5
	x.Env = []exchange.Field{{Name: "OLD", Value: "old"}}
	in, err := NewAuthorizer(Options{Group: groups.Single(a), DocRoot: "/srv"}).Admit(x)
	if !in || err != nil {
		t.Fatal(in, err)
	}
	if want := []exchange.Field{{Name: "OLD", Value: "new"}, {Name: "TEAM", Value: "blue"}}; !slices.Equal(x.Env, want) {
		t.Errorf("%v, want %v", x.Env, want)
	}
	if x.Started() || x.Resp.Fields.Len() != 0 || w.head.Status != 0 {
		t.Error("something of the answer went to the client")
	}
	if x.Attempts != (exchange.Attempts{}) {
		t.Errorf("its call is an attempt of the request: %+v", x.Attempts)
	}
	if a.call.Body != nil || a.call.Length != 0 || a.closed != 1 {
		t.Errorf("body %v, length %d, closed %d times", a.call.Body, a.call.Length, a.closed)
	}
	var vars []string
	for name, value := range a.call.Params.All() {
		vars = append(vars, name+"="+value)
	}
	wantVars(t, vars, "FCGI_ROLE=AUTHORIZER", "REQUEST_METHOD=POST", "REQUEST_URI=/a/b", "DOCUMENT_ROOT=/srv",
		"CONTENT_LENGTH absent", "SCRIPT_NAME absent", "PATH_INFO absent", "PATH_TRANSLATED absent")
}
