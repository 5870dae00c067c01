// Command httpjet serves a LiteSpeed-style configuration tree, and says
// beforehand what it will make of it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"httpjet/apps"
	"httpjet/check"
	"httpjet/demo"
	"httpjet/handover"
	"httpjet/server"
)

// Exit codes (R-CHECK-2).
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run()) }

// exit carries an exit code for which everything was said already.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// failure marks an error of the work, against one of the command line.
type failure struct{ error }

func run() int {
	cmd, err := root().ExecuteContextC(context.Background())
	code := exit(0)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, new(failure)):
		fmt.Fprintln(os.Stderr, "httpjet:", err)
		return exitFailed
	}
	fmt.Fprintln(os.Stderr, "httpjet:", err)
	if cmd.HasParent() {
		fmt.Fprintln(os.Stderr, "Usage:", cmd.UseLine())
	}
	fmt.Fprintf(os.Stderr, "Run '%s --help' for what can be asked.\n", cmd.CommandPath())
	return exitUsage
}

func root() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "httpjet",
		Short: "Serve a LiteSpeed-style XML tree: files, proxies, WebSockets, FastCGI",
		Long: "Serve a LiteSpeed-style XML tree: files, proxies, WebSockets, FastCGI.\n" +
			"Without a command: check.",
		Version:       server.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		PersistentPreRun: func(*cobra.Command, []string) {
			dir = rootOf(dir, os.Getenv(rootVariable), knownRoots[:]...)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { // no command is check
			return runCheck(check.Options{Root: dir})
		},
	}
	cmd.PersistentFlags().StringVar(&dir, "root", "", "server root, the directory that holds conf/httpd_config.xml, or OpenLiteSpeed's conf/httpd_config.conf; without it $HTTPJET_ROOT, else /usr/local/lsws, or /var/lib/httpjet of the package where only that has a configuration")
	cmd.AddCommand(checkCmd(&dir), reportCmd(&dir), schemaCmd(), explainCmd(&dir), diffCmd(&dir), reloadCmd(&dir), rollbackCmd(&dir), upgradeCmd(&dir), serveCmd(&dir), statusCmd(&dir), drainCmd(&dir), undrainCmd(&dir), cacheCmd(&dir), traceCmd(&dir), demoCmd(), applicationCmd(), selftestCmd(), keeperCmd(&dir), versionCmd())
	return cmd
}

func serveCmd(dir *string) *cobra.Command {
	o := server.Options{Stderr: os.Stderr}
	checkOnly := false
	var pages *cacheFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the tree",
		Long: "Binds every <listener> at its own address; with --http-addr or --https-addr the first\n" +
			"plain or secure listener at that address, and no other.\n\n" +
			"Files that change are reloaded by themselves, half a second after the last change.\n" +
			"Signals: SIGHUP reloads, SIGUSR1 reopens logs, SIGUSR2 toggles debug lines,\n" +
			"SIGRTMIN+1 does what httpjet upgrade does, SIGTERM and SIGINT drain and stop; a second\n" +
			"one stops at once.\n\n" +
			"Sockets that systemd has bound (socket activation) are used by the listeners whose\n" +
			"address they have.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if checkOnly {
				return runCheck(check.Options{Root: *dir})
			}
			if err := pages.read(); err != nil {
				return err
			}
			var err error
			o.Launcher = []string{"/proc/self/exe", applicationName} // this binary, also when an upgrade has replaced the file
			if o.KeptApplications, err = keptBelow(*dir); err != nil {
				return failure{err}
			}
			if exe, err := os.Executable(); err == nil { // its path, where an upgrade will find another
				o.Command = append([]string{exe}, os.Args[1:]...)
				if !cmd.Flags().Changed("root") { // a successor is not to choose anew
					o.Command = append(o.Command, "--root", *dir)
				}
			}
			if o.Inherited, err = handover.Inherited(); err != nil {
				return failure{err}
			}
			o.Root, o.MetricsDefault = *dir, !cmd.Flags().Changed("metrics-addr")
			if err := server.Run(cmd.Context(), o); err != nil {
				return failure{err}
			}
			return nil
		},
	}
	pages = addCacheFlags(cmd, &o.PageCache)
	cmd.Flags().BoolVar(&checkOnly, "check-config", false, "do what check does instead, and exit")
	cmd.Flags().StringVar(&o.HTTPAddr, "http-addr", "", "address of the first plain listener, host:port")
	cmd.Flags().StringVar(&o.HTTPSAddr, "https-addr", "", "address of the first secure listener, host:port")
	cmd.Flags().StringVar(&o.MetricsAddr, "metrics-addr", "127.0.0.1:9090", "address of status and metrics, before that of <management>; empty: off")
	cmd.Flags().BoolVar(&o.Watch, "watch", true, "reload when a file of the configuration or a certificate changes")
	cmd.Flags().StringVar(&o.ControlSocket, "control-socket", defaultSocket, "socket by which httpjet status, reload, rollback, diff, explain and drain ask, below the server root; empty: off")
	cmd.Flags().BoolVar(&o.RequestIDHeader, "request-id-header", false, "send the request id with every answer as X-Request-Id")
	return cmd
}

func demoCmd() *cobra.Command {
	o := demo.Options{Stdout: os.Stdout, Stderr: os.Stderr}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Serve the embedded demonstration and print what to try",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := demo.Run(cmd.Context(), o); err != nil {
				return failure{err}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.HTTPAddr, "http-addr", "127.0.0.1:8080", "address of the demonstration")
	return cmd
}

// applicationName is the command by which the server starts applications.
const applicationName = "start-application"

func applicationCmd() *cobra.Command {
	return &cobra.Command{
		Use:    applicationName,
		Short:  "Become an application; the server uses it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return exit(apps.Enter()) },
	}
}

func versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run:   func(*cobra.Command, []string) { fmt.Println("httpjet", server.Version) },
	}
}
