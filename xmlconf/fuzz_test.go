package xmlconf

import "testing"

// FuzzParse: no input makes the reader panic, and what it makes of an input is
// bounded by the input.
func FuzzParse(f *testing.F) {
	f.Add([]byte("<httpServerConfig><tuning><maxConnections>10K</maxConnections></tuning></httpServerConfig>"))
	f.Add([]byte("<virtualHostConfig><docRoot>$VH_ROOT/${x</docRoot>" + processor("<healthCheck><mode>GET</mode></healthCheck>") + "<context><uri>exp:^/(</uri></context></virtualHostConfig>"))
	f.Add([]byte("<virtualHostTemplate><vhRoot>$VH_NAME</vhRoot><virtualHostConfig><realm/></virtualHostConfig></virtualHostTemplate>"))
	f.Add([]byte("\ufeff<!DOCTYPE r><r><![CDATA[x]]>&#65;</r>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var fs Findings
		l := &loader{fs: &fs, dec: newDecoder(&fs)}
		l.dec.survey = &survey{}
		n, err := Parse("f.xml", data, &fs)
		if err != nil {
			return
		}
		l.document(n)
		for _, root := range []any{&Server{}, &VHost{}, &Template{}} {
			l.dec.decode(n, root, "any") // whatever the root is called
		}
		if got := len(fs.All()); got > 16+8*len(data) {
			t.Errorf("%d findings for %d bytes", got, len(data))
		}
	})
}

// FuzzPlain: the same of the plain dialect, with included files.
func FuzzPlain(f *testing.F) {
	f.Add([]byte("serverName a\ntuning {\n  maxConnections 10K\n}\nlistener a {\n  map a b, c\n}\ninclude x\n"))
	f.Add([]byte("docRoot $VH_ROOT/${x\ncontext exp:^/( {\n  rewrite {\n    rules <<<END_rules\nRewriteRule ^ - [F]\n  END_rules\n  RewriteFile x\n  }\n}\n"))
	f.Add([]byte("virtualHostConfig\n{\n  realm a {\n }\n scripthandler {\n add lsapi:a b\n suffix php\n}\n}"))
	f.Add([]byte("\ufeffmodule cache {\r\n qsCache 1\r\n\r\n param <<<END\r\nx\r\nEND\r\n}\r\nphpIniOverride {\nx }\n}\na \\\n \\\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var fs Findings
		l := &loader{fs: &fs, dec: newDecoder(&fs)}
		l.dec.survey = &survey{}
		for _, root := range []string{serverRoot, hostRoot, templateRoot} {
			n, err := parsePlain("f.conf", data, root, func(string) ([]plainFile, error) {
				return []plainFile{{"i.conf", []byte("note a\nerrorlog b\n")}}, nil
			})
			if err != nil {
				if pe, ok := err.(*ParseError); !ok || pe.Line < 1 || pe.Column < 1 || pe.Code != "E-CONF" {
					t.Errorf("error %v has no place", err)
				}
				return
			}
			l.document(n)
		}
		if got := len(fs.All()); got > 64+24*len(data) {
			t.Errorf("%d findings for %d bytes", got, len(data))
		}
	})
}
