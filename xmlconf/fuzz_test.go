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
