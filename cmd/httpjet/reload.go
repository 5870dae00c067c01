package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"httpjet/check"
	"httpjet/server"
)

func reloadCmd(dir *string) *cobra.Command {
	a := &asker{dir: dir}
	var in server.ReloadRequest
	format := "text"
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have the running server read its tree again, or say what that would do",
		Long: "With --dry-run the server builds the tree, loads its certificates, binds new\n" +
			"listeners and lets them go, asks each new peer once, within 20 seconds in all, and\n" +
			"publishes nothing.\n\n" +
			"Exit code 1: the tree would be, or was, refused, or a new peer cannot be reached.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "text" && format != "json" {
				return fmt.Errorf("--format %q is unknown: use text or json", format)
			}
			var out server.ReloadAnswer
			if err := a.client().Post(cmd.Context(), "/v1/reload", in, &out); err != nil {
				return failure{err}
			}
			return failed(writeReload(os.Stdout, in, &out, format == "json"))
		},
	}
	a.flags(cmd)
	cmd.Flags().BoolVar(&in.DryRun, "dry-run", false, "publish nothing")
	cmd.Flags().StringVar(&format, "format", "text", "text or json")
	return cmd
}

func writeReload(w io.Writer, in server.ReloadRequest, out *server.ReloadAnswer, asJSON bool) error {
	bad := 0
	for _, p := range out.Peers {
		if !p.OK {
			bad++
		}
	}
	if asJSON {
		writeJSON(w, out)
	} else if !in.DryRun {
		fmt.Fprintf(w, "generation %d serves, hash %s\n", out.Generation, out.Hash)
	} else {
		if out.Difference != nil {
			out.Difference.Write(w, false)
		}
		for _, p := range out.Peers {
			state := "answers"
			if !p.OK {
				state = "cannot be used: " + p.Error
			}
			fmt.Fprintf(w, "peer %s %d %s %s\n", p.Group, p.Peer, p.Address, state)
		}
		if out.Refused == "" {
			fmt.Fprintln(w, "would be published; nothing was")
		}
	}
	switch {
	case out.Refused != "":
		return errors.New("would be refused: " + out.Refused)
	case bad > 0:
		return fmt.Errorf("%s cannot be reached", count(bad, "new peer"))
	}
	return nil
}

func rollbackCmd(dir *string) *cobra.Command {
	a := &asker{dir: dir}
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Have the running server serve the configuration that served before",
		Long: "The files stay as they are, and are read again when one changes, by reload, or by\n" +
			"SIGHUP. The last five configurations are kept; each rollback goes back one further.\n" +
			"One that would lose a host or a certificate that serves now is refused.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out server.ReloadAnswer
			if err := a.client().Post(cmd.Context(), "/v1/rollback", struct{}{}, &out); err != nil {
				return failure{err}
			}
			fmt.Printf("generation %d serves, hash %s\n", out.Generation, out.Hash)
			return nil
		},
	}
	a.flags(cmd)
	return cmd
}

// theRunning stands for the running server where diff wants a root.
const theRunning = "running"

func diffCmd(dir *string) *cobra.Command {
	a := &asker{dir: dir}
	format := "text"
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Say what is different between two trees, and what publishing the second would do",
		Long: "A and B are server roots; one of them may be " + theRunning + ", the configuration that the\n" +
			"server of --root serves. What is written otherwise but means the same is no\n" +
			"difference. Values of env and of PHP settings are not shown.",
		Example: "  httpjet diff /usr/local/lsws /srv/staged\n  httpjet diff " + theRunning + " /usr/local/lsws",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case format != "text" && format != "json":
				return fmt.Errorf("--format %q is unknown: use text or json", format)
			case args[0] == theRunning && args[1] == theRunning:
				return errors.New("only one of the two can be " + theRunning)
			case args[0] == theRunning:
				return failed(a.diff(cmd.Context(), server.DiffRequest{Root: args[1]}, format == "json"))
			case args[1] == theRunning:
				return failed(a.diff(cmd.Context(), server.DiffRequest{Root: args[0], Reverse: true}, format == "json"))
			}
			_, err := check.Diff(check.Options{Format: format, Version: server.Version}, args[0], args[1], os.Stdout)
			return failed(err)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&format, "format", "text", "text or json")
	return cmd
}

func (a *asker) diff(ctx context.Context, in server.DiffRequest, asJSON bool) error {
	var err error
	if in.Root, err = filepath.Abs(in.Root); err != nil {
		return err
	}
	var d check.Difference
	if err := a.client().Post(ctx, "/v1/diff", in, &d); err != nil {
		return err
	}
	d.Write(os.Stdout, asJSON)
	return nil
}

func (a *asker) explain(ctx context.Context, q check.Question, asJSON bool) error {
	var d check.Decision
	if err := a.client().Post(ctx, "/v1/explain", q, &d); err != nil {
		return err
	}
	d.Write(os.Stdout, asJSON)
	return nil
}

func writeJSON(w io.Writer, v any) {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	enc.Encode(v)
}

func upgradeCmd(dir *string) *cobra.Command {
	a := &asker{dir: dir}
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Have the running server succeeded by its program as it is now",
		Long: "The server starts its program anew, by the same path and with the same arguments, and\n" +
			"hands its sockets over. When the new process serves, the old one finishes what it is\n" +
			"at and ends: no connection is refused. If the new one does not come to serve within 25\n" +
			"seconds, the old one stays. Connections over HTTP/3 end with the old process; new\n" +
			"ones come when it is gone. Counters begin anew.\n\n" +
			"Exit code 1: the old process serves on; its error log and standard error have why.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out server.UpgradeAnswer
			if err := a.client().Post(cmd.Context(), "/v1/upgrade", struct{}{}, &out); err != nil {
				return failure{err}
			}
			fmt.Printf("process %d serves\n", out.Process)
			return nil
		},
	}
	a.flags(cmd)
	return cmd
}
