package xmlconf

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/config.md and docs/schema")

// docs/config.md and the schemas are what the declarations say.
func TestDocs(t *testing.T) {
	for file, got := range map[string]string{
		"../docs/config.md":           Docs(),
		"../docs/schema/server.xsd":   Schema("server"),
		"../docs/schema/vhost.xsd":    Schema("vhost"),
		"../docs/schema/template.xsd": Schema("template"),
	} {
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is out of date: run go test ./xmlconf -run TestDocs -update", file)
		}
	}
}

// Each declaration has a sentence, a readable range and a readable default; a
// default outside the range must mean "not set" and is one of few.
func TestDeclarations(t *testing.T) {
	d := newDecoder(&Findings{})
	for _, root := range []any{&Server{}, &VHost{}, &Template{HostConfig: &VHost{}}} {
		d.decode(nil, root, "root") // panics on a bad default
	}
	for typ, s := range d.schemas {
		for _, e := range s.elements {
			where := typ.Name() + "/" + e.name
			if e.doc == "" || strings.HasSuffix(e.doc, ".") {
				t.Errorf("%s: doc %q is no phrase", where, e.doc)
			}
			if _, known := reasons[e.why]; !known && (e.as == noEffect || e.as == obsolete || e.why != "") {
				t.Errorf("%s: has no effect for the unknown reason %q", where, e.why)
			}
			if e.changed == "" && e.when != "" {
				t.Errorf("%s: a condition of nothing", where)
			}
			if e.index == nil || e.block() != nil || e.limits == "" || !e.hasDef {
				continue
			}
			_, _, bad := parseValue(e, e.def, true)
			if bad != nil && e.def != "-1" && e.def != "0" {
				t.Errorf("%s: default %s: %s", where, e.def, bad.msg)
			}
		}
	}
}
