package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"httpjet/apps"
)

// keeperName is the command that keeps applications, and keeperDir where it and the
// server meet, below the server root.
const (
	keeperName = "lsphp"
	keeperDir  = "run"
)

func keeperCmd(dir *string) *cobra.Command {
	o := apps.KeeperOptions{}
	detach, background := false, false
	cmd := &cobra.Command{
		Use:   keeperName,
		Short: "Keep PHP and other applications running while the server restarts",
		Long: "Applications with runOnStartUp 2 or 3 outlive the server: this process starts them, and\n" +
			"the server asks it to. A server that finds none starts one by itself, which ends when\n" +
			"nobody needs it. Run it as a service of its own where the end of the server's service\n" +
			"ends everything in it, as with systemd: httpjet-lsphp.service.\n\n" +
			"It starts nothing before a server asks. SIGTERM ends it and all that it keeps.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := filepath.Abs(*dir)
			if err != nil {
				return failure{err}
			}
			o.Dir = filepath.Join(root, keeperDir)
			if detach {
				err = apps.Detach([]string{"/proc/self/exe", "--root", root, keeperName, "--background", "--linger", o.Linger.String()}, o.Dir)
			} else {
				err = keep(cmd.Context(), o, background)
			}
			if err != nil {
				return failure{err}
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&o.Linger, "linger", time.Minute, "how long an application goes on that no server wants: longer than a restart takes")
	cmd.Flags().BoolVar(&detach, "detach", false, "go on in the background, and return when servers can come; it ends when nobody needs it")
	cmd.Flags().BoolVar(&background, "background", false, "")
	cmd.Flags().MarkHidden("background")
	cmd.AddCommand(&cobra.Command{
		Use:   "reload",
		Short: "Replace the processes of all applications that are kept, without a gap: behind an update of PHP",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			n, err := apps.Renew(filepath.Join(*dir, keeperDir))
			if err != nil {
				return failure{err}
			}
			fmt.Println("applications started anew:", n)
			return nil
		},
	})
	return cmd
}

// keptBelow is how a server of a root finds the keeper of its applications, and starts
// one.
func keptBelow(root string) (apps.KeptBy, error) {
	dir, err := filepath.Abs(root)
	return apps.KeptBy{Dir: filepath.Join(dir, keeperDir), Command: []string{"/proc/self/exe", "--root", dir, keeperName, "--detach"}}, err
}

// keep runs until a signal ends it.
func keep(ctx context.Context, o apps.KeeperOptions, background bool) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	o.Launcher = []string{"/proc/self/exe", applicationName}
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	o.UntilUnused = background
	o.Ready = func() { daemon.SdNotify(false, daemon.SdNotifyReady) }
	if background {
		o.Ready = apps.SayReady
	}
	err := apps.Keep(ctx, o)
	if err != nil && background { // Detach passes it on
		fmt.Println(err)
	}
	return err
}
