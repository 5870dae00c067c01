package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

const manPage = "../../packaging/httpjet.1"

// packaging/httpjet.1 is one page of all commands, made of what --help says.
func TestDocsManPage(t *testing.T) {
	cmd := root()
	cmd.InitDefaultHelpCmd()
	var out bytes.Buffer
	date := time.Unix(0, 0).UTC()
	write := func(c *cobra.Command) {
		var page bytes.Buffer
		if err := doc.GenMan(c, &doc.GenManHeader{Title: "HTTPJET", Section: "1", Source: "httpjet", Manual: "httpjet", Date: &date}, &page); err != nil {
			t.Fatal(err)
		}
		text := page.String()
		if out.Len() > 0 { // a further command is a section of the same page
			_, text, _ = strings.Cut(text, ".SH NAME\n")
			_, text, _ = strings.Cut(text, ".SH ")
			text = ".SH \"" + strings.ToUpper(c.CommandPath()) + "\"\n.SS " + strings.ReplaceAll(text, "\n.SH ", "\n.SS ")
			text, _, _ = strings.Cut(text, "\n.SS OPTIONS INHERITED")
			text, _, _ = strings.Cut(text, "\n.SS SEE ALSO")
		} else {
			text, _, _ = strings.Cut(text, "\n.SH SEE ALSO")
		}
		out.WriteString(strings.TrimRight(text, "\n") + "\n")
	}
	var all func(*cobra.Command)
	all = func(c *cobra.Command) {
		write(c)
		for _, sub := range c.Commands() {
			if !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" {
				all(sub)
			}
		}
	}
	all(cmd)
	text := strings.ReplaceAll(out.String(), ".nh\n", "")
	if *update {
		if err := os.WriteFile(manPage, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(manPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != text {
		t.Error("packaging/httpjet.1 is not what the commands say: make docs")
	}
}
