package check

import (
	"bufio"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"httpjet/xmlconf"
)

// words are the treatments for people.
var words = map[xmlconf.Treatment]string{xmlconf.Honoured: "honoured", xmlconf.Changed: "changed",
	xmlconf.NoEffect: "no effect", xmlconf.Refused: "refused"}

func (m *Migration) write(out io.Writer, format string) error {
	w := bufio.NewWriter(out)
	var err error
	switch format {
	case "json":
		err = writeJSON(w, m)
	case "markdown":
		m.writeMarkdown(w)
	case "html":
		err = page.Execute(w, m)
	default:
		m.writeText(w)
	}
	if err != nil {
		return err
	}
	return w.Flush()
}

// String is the totals in one sentence.
func (t Totals) String() string {
	s := fmt.Sprintf("%d elements: %.1f %% honoured, %.1f %% changed, %.1f %% no effect, %.1f %% refused",
		t.Elements, t.Honoured.Percent, t.Changed.Percent, t.NoEffect.Percent, t.Refused.Percent)
	if t.Defaults > 0 {
		s += fmt.Sprintf("; %d defaults differ from LiteSpeed's", t.Defaults)
	}
	return s
}

// Word is the treatment for people.
func (e Element) Word() string { return words[e.Treatment] }

// Position is where the element stands.
func (e Element) Position() string { return fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column) }

// Note is the reason with the risk.
func (e Element) Note() string {
	if e.Risk == "" {
		return e.Reason
	}
	return e.Reason + "; " + e.Risk
}

// Title is the name of the scope for people.
func (s Scope) Title() string {
	kind, name, _ := strings.Cut(s.Name, ":")
	title := map[string]string{"server": "Server", "vhost": "Virtual host " + name, "template": "Template " + name, "file": "File"}[kind]
	if !s.Loaded {
		title += " (not loaded)"
	}
	return title
}

// Anchor is the number of a scope on the page.
func (m *Migration) Anchor(i int) string { return fmt.Sprintf("scope-%d", i+1) }

func (m *Migration) writeText(w io.Writer) {
	fmt.Fprintf(w, "root: %s\n", m.Root)
	for _, f := range m.Errors {
		fmt.Fprintln(w, f.lint())
	}
	fmt.Fprintf(w, "total: %s\n", m.Total)
	for _, s := range m.Scopes {
		fmt.Fprintf(w, "\n%s: %s\n", s.Title(), s.Total)
		for _, e := range s.Elements {
			fmt.Fprintf(w, "  %-9s %s: %s", e.Word(), e.Position(), e.Element)
			if e.Value != "" {
				fmt.Fprintf(w, " = %s", e.Value)
			}
			if note := e.Note(); note != "" {
				fmt.Fprintf(w, ": %s", note)
			}
			fmt.Fprintln(w)
		}
	}
}

func (m *Migration) writeMarkdown(w io.Writer) {
	cell := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "*", `\*`, "_", `\_`, "`", "'")
	fmt.Fprintf(w, "# Migration report\n\n`%s`, httpjet %s\n\n%s.\n", m.Root, m.Version, m.Total)
	for _, f := range m.Errors {
		fmt.Fprintf(w, "\n- %s\n", cell.Replace(f.lint()))
	}
	fmt.Fprint(w, "\n| scope | elements | honoured | changed | no effect | refused |\n|---|---|---|---|---|---|\n")
	for _, s := range m.Scopes {
		t := s.Total
		fmt.Fprintf(w, "| %s | %d | %.1f %% | %.1f %% | %.1f %% | %.1f %% |\n", cell.Replace(s.Title()), t.Elements,
			t.Honoured.Percent, t.Changed.Percent, t.NoEffect.Percent, t.Refused.Percent)
	}
	for _, s := range m.Scopes {
		fmt.Fprintf(w, "\n## %s\n\n%s.\n\n| treatment | element | value | position | note |\n|---|---|---|---|---|\n", cell.Replace(s.Title()), s.Total)
		for _, e := range s.Elements {
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", e.Word(), cell.Replace(e.Element), cell.Replace(e.Value), cell.Replace(e.Position()), cell.Replace(e.Note()))
		}
	}
}

//go:embed migration.html
var pageText string

// page is one self-contained page: no script, no file beside it. Package
// html/template escapes what comes from the tree.
var page = template.Must(template.New("page").Parse(pageText))
