package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"httpjet/check"
	"httpjet/server"
	"httpjet/xmlconf"
)

func runCheck(o check.Options) error {
	o.Version, o.Stderr = server.Version, os.Stderr
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // most of what a check takes lives until its end
	}
	if code := check.Run(o, os.Stdout); code != check.OK {
		return exit(code)
	}
	return nil
}

// oneOf tests the value of a flag. "" is the default of check.
func oneOf(flag, value string, legal []string) error {
	if value != "" && !slices.Contains(legal, value) {
		return fmt.Errorf("--%s %q is unknown: use %s", flag, value, strings.Join(legal, ", "))
	}
	return nil
}

func checkCmd(dir *string) *cobra.Command {
	o := check.Options{}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say what a configuration means, line by line, without serving it",
		Long: "Loads and builds the tree exactly as serve does and starts nothing. With --file one\n" +
			"file is read by itself; what needs the rest of the tree, such as names of listeners\n" +
			"and applications, is not looked at. docs/findings.md explains each code.\n\n" +
			"Exit code 0: it loads; 1: it does not, or there is a finding that --strict or --fail-on\n" +
			"does not allow; 2: bad command line, or a baseline that cannot be read.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("format", o.Format, check.Formats); err != nil {
				return err
			}
			if err := oneOf("fail-on", o.FailOn, []string{"error", "warn", "info"}); err != nil {
				return err
			}
			o.Root = *dir
			return runCheck(o)
		},
	}
	cmd.Flags().BoolVar(&o.Strict, "strict", false, "exit 1 if there is a finding of level ERROR")
	cmd.Flags().StringVar(&o.FailOn, "fail-on", "", "exit 1 if there is a finding of this `severity` or a worse one: error, warn or info")
	cmd.Flags().StringVar(&o.Format, "format", "text", "text, json or sarif")
	cmd.Flags().StringVar(&o.File, "file", "", "check one server, virtual host or template file by itself, instead of a tree")
	cmd.Flags().StringVar(&o.Baseline, "baseline", "", "`file` of known findings, which are not told and not counted")
	cmd.Flags().StringVar(&o.WriteBaseline, "write-baseline", "", "write the findings to a `file` for --baseline")
	return cmd
}

func reportCmd(dir *string) *cobra.Command {
	o := check.MigrationOptions{Version: server.Version}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Say of each element what httpjet makes of it: honoured, changed, no effect, refused",
		Long: "The report for who moves a tree from LiteSpeed: every element with its position, value\n" +
			"and treatment, and the defaults that differ, for the server and each virtual host.\n" +
			"It holds no values of env and no passwords. --format html makes one page to hand on.\n\n" +
			"Exit code 0: the tree loads; 1: it does not, and the report has what could be read;\n" +
			"2: bad command line.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("format", o.Format, check.MigrationFormats); err != nil {
				return err
			}
			o.Root = *dir
			if code := check.Migrate(o, os.Stdout); code != check.OK {
				return exit(code)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Format, "format", "text", "text, json, markdown or html")
	cmd.Flags().StringVar(&o.File, "file", "", "report on one server, virtual host or template file by itself, instead of a tree")
	return cmd
}

func schemaCmd() *cobra.Command {
	kinds := []string{"server", "vhost", "template"}
	return &cobra.Command{
		Use:       "schema {server|vhost|template}",
		Short:     "Print the XML schema of one kind of file, for editors and validators",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: kinds,
		Run:       func(_ *cobra.Command, args []string) { fmt.Print(xmlconf.Schema(args[0])) },
	}
}
