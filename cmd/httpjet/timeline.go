package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"httpjet/status"
)

func traceCmd(dir *string) *cobra.Command {
	a := &asker{dir: dir}
	format := "text"
	cmd := &cobra.Command{
		Use:   "trace [ID]",
		Short: "Say what happened to a request and when, or list the requests of which that is known",
		Long: "A request whose client is in <tracing><timelineFrom> and that has the field\n" +
			"X-Httpjet-Timeline: 1 is recorded; its answer tells the id in the same field. The last\n" +
			"timelineKeep are kept, over reloads too, until the server ends.",
		Example: "  curl -sD - -o /dev/null -H 'X-Httpjet-Timeline: 1' http://www.example.com/app/\n  httpjet trace 8d3f0f6c9a4e4f6f8b1d6c1f0a7b2c3d",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return fmt.Errorf("--format %q is unknown: use text or json", format)
			}
			path := "/api/v1/timelines"
			if len(args) > 0 {
				path += "?" + url.Values{"id": args}.Encode()
			}
			var out status.Timelines
			err := a.client().Get(cmd.Context(), path, &out)
			switch {
			case err != nil:
			case !out.Enabled:
				err = fmt.Errorf("nobody may ask this server for a timeline: write <tracing><timelineFrom>")
			case len(args) > 0 && len(out.Timelines) == 0:
				err = fmt.Errorf("no timeline of request %q is kept", args[0])
			}
			if err != nil {
				return failure{err}
			}
			if format == "json" {
				enc := json.NewEncoder(os.Stdout)
				enc.SetIndent("", "  ")
				enc.SetEscapeHTML(false)
				return enc.Encode(out)
			}
			writeTimelines(os.Stdout, &out, len(args) > 0)
			return nil
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&format, "format", "text", "text or json")
	return cmd
}

// writeTimelines writes a line for each request, and the events of one.
func writeTimelines(w io.Writer, t *status.Timelines, whole bool) {
	for i := range t.Timelines {
		l := &t.Timelines[i]
		what := l.Error
		if what == "" {
			what = "-"
		}
		// What the client named is quoted: a terminal takes it for nothing else.
		fmt.Fprintf(w, "%s %s %q %q %s %s %d %s %.3f ms\n", l.ID, l.At.Format(time.RFC3339Nano), l.Method, l.Path, l.VHost, l.Route, l.Status, what, l.Took)
		if !whole {
			continue
		}
		if l.TraceID != "" {
			fmt.Fprintf(w, "trace %s\n", l.TraceID)
		}
		for _, e := range l.Events {
			fmt.Fprintf(w, "%12.3f ms  %s%s\n", e.After, e.What, tail(e.Text))
		}
		if l.Lost > 0 {
			fmt.Fprintf(w, "%d events more are not kept\n", l.Lost)
		}
	}
}

func tail(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}
