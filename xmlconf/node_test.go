package xmlconf

import (
	"errors"
	"strings"
	"testing"
)

// parse is Parse with the codes of what was told.
func parse(t *testing.T, text string) (*Node, string, error) {
	t.Helper()
	var fs Findings
	n, err := Parse("f.xml", []byte(text), &fs)
	return n, codes(&fs), err
}

// codes joins the codes of all findings.
func codes(fs *Findings) string {
	var out []string
	for _, f := range fs.All() {
		out = append(out, f.Code)
	}
	return strings.Join(out, " ")
}

// The lexical habits of real files (LSX 1.2, R-CFG-7).
func TestParseText(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		n, _, err := parse(t, text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			return
		}
		if got := n.value("a"); got != want {
			t.Errorf("%q: a = %q, want %q", text, got, want)
		}
	}
	f("<r><a>x</a></r>", "x")
	f("\ufeff<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n<r>\r\n<a>x</a>\r\n</r>", "x") // BOM, CRLF
	f("<?xml version=\"1.0\"?><r><a>x</a></r>", "x")                                      // root on the first line
	f("<r><a> \t x\n </a></r>", "x")                                                      // blanks at both ends
	f("<r><a>l1\r\nl2</a></r>", "l1\nl2")
	f("<r><!-- c --><a>x<!-- c -->y</a></r>", "xy")
	f("<r># stray <!-- <a>no</a> --><a>x</a> text</r>", "x")
	f("<r><a><![CDATA[\nRule <&> [P]\n]]></a></r>", "Rule <&> [P]")
	f("<r><a>&quot;&lt;&gt;&amp;&apos;&#65;&#x42;</a></r>", `"<>&'AB`)
	f("<r><a/></r>", "")
	f("<r><a>\n</a></r>", "")
	f(`<r xmlns="urn:x"><a xml:space="preserve">x</a></r>`, "x")
	f("<r><A>x</A></r>", "x") // names in any case
	f("<!DOCTYPE r><r><a>x</a></r>", "x")
	f(`<?xml version="1.0" encoding="us-ascii"?><r><a>x</a></r>`, "x")
}

// What is refused, and where (R-CFG-7).
func TestParseRefuses(t *testing.T) {
	f := func(text, code, at, msg string) {
		t.Helper()
		_, _, err := parse(t, text)
		pe, ok := errors.AsType[*ParseError](err)
		if !ok {
			t.Errorf("%.60q: error %v, want %s", text, err, code)
			return
		}
		if pe.Code != code || pe.Pos.String() != "f.xml:"+at || !strings.Contains(pe.Msg, msg) {
			t.Errorf("%.60q: %s %s %q, want %s f.xml:%s with %q", text, pe.Code, pe.Pos, pe.Msg, code, at, msg)
		}
	}
	f("", "E-XML", "1:1", "no element")
	f("name value\nblock x {\n}", "E-XML", "3:2", "no element")
	f("<r>\n  <a>\n</r>", "E-XML", "3:5", "not well-formed")
	f("<r>&nbsp;</r>", "E-XML", "1:10", "invalid character entity")
	f("<r>a & b</r>", "E-XML", "1:7", "invalid character entity")
	f("<r>\xff</r>", "E-XML", "1:5", "invalid UTF-8")
	f("<r/>\n<s/>", "E-XML", "2:1", "second root")
	f(`<?xml version="1.0" encoding="latin1"?><r/>`, "E-XML", "1:40", "encoding")
	f("<!DOCTYPE r [<!ENTITY a \"b\">]>\n<r>&a;</r>", "E-XML", "1:1", "DOCTYPE with declarations")
	f("<!DOCTYPE r [\n]><r/>", "E-XML", "1:1", "DOCTYPE with declarations")
	f("<!ENTITY a 'b'><r/>", "E-XML", "1:1", "refused")
	f("<r><!DOCTYPE r></r>", "E-XML", "1:4", "at this place")
	f("<!DOCTYPE r><!DOCTYPE r><r/>", "E-XML", "1:13", "at this place")
	f("<r>\n <v name=\"x\"/></r>", "E-OLD-SCHEMA", "2:2", "attribute name on <v>")
	f("<r><fcgiList/></r>", "E-OLD-SCHEMA", "1:4", "<fcgiList>")
	f(strings.Repeat("<a>", 33), "E-XML", "1:97", "deeper than 32")
	f("<r>"+strings.Repeat("<a/>", maxElements)+"</r>", "E-XML", "1:400000", "more than 100000 elements")
	f("<r>"+strings.Repeat(" ", maxFile)+"</r>", "E-XML", "1:1", "larger than 8 MiB")
}

func TestParseDepth(t *testing.T) {
	if _, _, err := parse(t, strings.Repeat("<a>", 32)+strings.Repeat("</a>", 32)); err != nil {
		t.Errorf("32 levels: %v", err)
	}
}

func TestParseDoctypeWarns(t *testing.T) {
	if _, got, err := parse(t, "<!DOCTYPE r SYSTEM \"http://127.0.0.1/x.dtd\">\n<r/>"); got != "W-DOCTYPE" || err != nil {
		t.Errorf("findings %q, error %v; want W-DOCTYPE", got, err)
	}
}

// Positions are those of the start tag and of the first character.
func TestParsePositions(t *testing.T) {
	f := func(text, pos, textPos string) {
		t.Helper()
		n, _, err := parse(t, text)
		if err != nil {
			t.Fatal(err)
		}
		a := n.child("a")
		if a.Pos.String() != "f.xml:"+pos || a.TextPos.String() != "f.xml:"+textPos {
			t.Errorf("%q: element %s, text %s; want %s, %s", text, a.Pos, a.TextPos, pos, textPos)
		}
	}
	f("<r>\n  <a>x</a></r>", "2:3", "2:6")
	f("<r>\r\n  <a>\r\n\r\n  x</a></r>", "2:3", "4:3")
	f("<r><a>  x</a></r>", "1:4", "1:9")
}
