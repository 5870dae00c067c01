package xmlconf

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// validate runs xmllint with the schema of the file's kind, and returns what it
// says; "" if the file is valid.
func validate(t *testing.T, schemas, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kind := "server"
	switch m := regexp.MustCompile(`<(?:virtualHostTemplate|virtualHostConfig|httpServerConfig)`).FindString(string(text)); m {
	case "<virtualHostTemplate":
		kind = "template"
	case "<virtualHostConfig":
		kind = "vhost"
	}
	out, err := exec.Command("xmllint", "--noout", "--schema", filepath.Join(schemas, kind+".xsd"), file).CombinedOutput()
	if err == nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// xmllint is the public validator of the schemas.
func needXmllint(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("xmllint"); err != nil {
		t.Skip("not run: ", err)
	}
}

// The schemas accept what the reader takes without a finding about form, in any
// order, and refuse what it replaces by a default or does not know.
func TestSchema(t *testing.T) {
	needXmllint(t)
	f := func(text, complaint string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "f.xml")
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		got := validate(t, "../docs/schema", file)
		if complaint == "" && got != "" || !strings.Contains(got, complaint) {
			t.Errorf("%s: xmllint says %q, want %q", text, got, complaint)
		}
	}
	server := func(inner string) string { return "<httpServerConfig>" + inner + "</httpServerConfig>" }
	f(server("# stray text\n<tuning><maxReqBodySize> 10m </maxReqBodySize><connTimeout></connTimeout></tuning><serverName>a</serverName>"), "")
	f(server("<serverName>a</serverName><serverName>b</serverName><tuning/>"), "") // the first wins
	f(server("<listener><name>a</name></listener><listenerList><listener><address>*:80</address></listener></listenerList>"), "")
	f(server("<accessControl><allow>ALL</allow></accessControl><security><accessDenyDir><dir>/</dir><dir>/etc/*</dir></accessDenyDir></security>"), "")
	f(server("<railsDefaults><env>A=1</env><any/></railsDefaults>"), "")
	f(server("<logging><log><logLevel>info</logLevel></log></logging>"), "")
	f(server("<extProcessor><healthCheck><interval>1m</interval><mode>GET</mode></healthCheck><pcKeepAliveTimeout>-1</pcKeepAliveTimeout></extProcessor>"), "")
	f("<virtualHostConfig><context><uri>/</uri><accessControl><deny>ALL</deny></accessControl></context><realm><name>a</name></realm></virtualHostConfig>", "")
	f("<virtualHostTemplate><vhRoot>/</vhRoot><virtualHostConfig><docRoot>/</docRoot></virtualHostConfig></virtualHostTemplate>", "")

	f(server("<tuning><maxConnections>0</maxConnections></tuning>"), "'maxConnections': '0' is not a valid value")
	f(server("<tuning><keepAliveTimeout>1h</keepAliveTimeout></tuning>"), "'keepAliveTimeout'")
	f(server("<autoIndex>yes</autoIndex>"), "'yes'")
	f(server("<futureKnob>1</futureKnob>"), "'futureKnob': This element is not expected")
	f(server("<extProcessor><loadBalancePolicy>wrr</loadBalancePolicy></extProcessor>"), "'wrr'")
	f(server("<extProcessor><healthCheck><mode>get</mode></healthCheck></extProcessor>"), "'get'")
	f(server("<security><fileAccessControl><requiredPermissionMask>9</requiredPermissionMask></fileAccessControl></security>"), "'9'")
	f("<virtualHostConfig><listener/></virtualHostConfig>", "'listener'")
}

// TestSchemaCorpus validates real files: most are valid, those that the reader
// has to correct are not.
func TestSchemaCorpus(t *testing.T) {
	needXmllint(t)
	dir := os.Getenv("HTTPJET_CORPUS")
	if dir == "" {
		t.Skip("HTTPJET_CORPUS names no folder of configuration files")
	}
	valid, refused := 0, 0
	for _, pattern := range []string{"*.xml", "*/*.xml"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			said := validate(t, "../docs/schema", file)
			if said == "" {
				valid++
				continue
			}
			t.Logf("%s: %s", filepath.Base(file), said)
			if strings.Contains(said, "is not a valid value") {
				refused++
			}
		}
	}
	t.Logf("%d files are valid, %d have bad values", valid, refused)
	if valid < 25 || refused == 0 {
		t.Errorf("%d files are valid, %d have bad values; want at least 25 and 1", valid, refused)
	}
}
