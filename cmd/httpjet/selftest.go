package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"httpjet/framing"
)

func selftestCmd() *cobra.Command {
	var o framing.Options
	var asJSON, strict bool
	cmd := &cobra.Command{
		Use:   "selftest --framing TARGET",
		Short: "See where an upstream reads messages in another way than httpjet",
		Long: "Sends about 70 messages whose end can be read in more than one way to a server, such as\n" +
			"one that httpjet is to be put before, and tells what httpjet would do, what the server did,\n" +
			"and how that compares:\n\n" +
			"  same      both refuse, or both see the same requests\n" +
			"  stricter  the server refuses what httpjet accepts\n" +
			"  lenient   the server accepts what httpjet refuses or does not pass on: behind httpjet it\n" +
			"            never gets that\n" +
			"  smuggles  it does, and finds a second request in the message\n" +
			"  differs   both accept, and see other requests\n" +
			"  unknown   the server ends connections too early to tell\n\n" +
			"All requests, the hidden ones too, are GET or POST of the path of TARGET with the query\n" +
			"httpjet-framing=..., and each message has a connection of its own. Ask upstreams\n" +
			"themselves, not through proxies that share connections among clients.\n\n" +
			"Exit code 1: something differs, or with --strict is lenient or smuggles; or the server\n" +
			"cannot be asked. docs/framing.md says what to do about it.",
		Example: "  httpjet selftest --framing http://127.0.0.1:8000/",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Target == "" {
				return errors.New("--framing TARGET is missing")
			}
			r, err := framing.Run(cmd.Context(), o)
			if err != nil {
				return failure{err}
			}
			if asJSON {
				out := json.NewEncoder(os.Stdout)
				out.SetIndent("", "  ")
				err = out.Encode(r)
			} else {
				err = framingTable(os.Stdout, r)
			}
			switch {
			case err != nil:
				return failure{err}
			case r.Counts[framing.Differs] > 0, strict && r.Counts[framing.Lenient]+r.Counts[framing.Smuggles] > 0:
				return exit(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Target, "framing", "", "server to ask: http[s]://host[:port]/path, or host:port")
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 2*time.Second, "time for the answers to a message")
	cmd.Flags().BoolVar(&o.Insecure, "insecure", false, "do not verify the server's certificate")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit code 1 also for lenient and smuggles")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// framingTable prints a report for people.
func framingTable(w io.Writer, r *framing.Report) error {
	fmt.Fprintf(w, "%s, marked httpjet-framing=%s\n\n", r.Target, r.Mark)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MESSAGE\tHTTPJET\tTARGET\tVERDICT")
	for _, c := range r.Cases {
		fmt.Fprintf(t, "%s\t%v\t%v\t%s\n", c.Name, c.Ours, c.Target, c.Verdict)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if !r.Keeps {
		fmt.Fprintln(w, "The target ends connections behind an answer: hidden requests cannot be seen.")
	}
	n := r.Counts
	_, err := fmt.Fprintf(w, "%d messages: %d same, %d stricter, %d lenient, %d smuggle, %d differ, %d unknown\n", len(r.Cases),
		n[framing.Same], n[framing.Stricter], n[framing.Lenient], n[framing.Smuggles], n[framing.Differs], n[framing.Unknown])
	return err
}
