package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"httpjet/control"
	"httpjet/server"
	"httpjet/status"
)

// defaultSocket is the control socket below the server root (R-DRAIN-2).
const defaultSocket = "run/httpjet.sock"

// asker is what the commands that ask a running server share.
type asker struct {
	dir           *string
	socket, vhost string
}

func (a *asker) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.socket, "control-socket", defaultSocket, "control socket of the running server, below the server root")
}

// groupFlags are those of commands about one group.
func (a *asker) groupFlags(cmd *cobra.Command) {
	a.flags(cmd)
	cmd.Flags().StringVar(&a.vhost, "vhost", "", "virtual host that declares the group; the same as vhost:NAME/ before it")
}

func (a *asker) client() *control.Client {
	return control.NewClient(server.ControlPath(*a.dir, a.socket))
}

func drainCmd(dir *string) *cobra.Command {
	a := &asker{dir: dir}
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "drain [SCOPE/]GROUP PEER",
		Short: "Send no new requests to a peer of the running server",
		Long: "The peer is named by its ordinal, from 0, or by its address as in the configuration;\n" +
			"the group by the name of its processor, with server/ or vhost:NAME/ before it where\n" +
			"that is not one alone. httpjet status lists both.\n\n" +
			"What is with the peer finishes; when no request is, it may be stopped. The drain\n" +
			"survives reloads that leave the peer's address as it is. It ends with undrain, or\n" +
			"with the server's process.",
		Example: "  httpjet drain app 10.0.0.2:8080 --wait 30s\n  httpjet drain vhost:shop/app 1",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.setDrain(cmd.Context(), "/v1/drain", args)
			if err == nil && wait > 0 {
				err = a.await(cmd.Context(), d, wait)
			}
			return failed(err)
		},
	}
	a.groupFlags(cmd)
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait so long until no request is with the peer; exit 1 if some are")
	return cmd
}

func undrainCmd(dir *string) *cobra.Command {
	a := &asker{dir: dir}
	cmd := &cobra.Command{
		Use:   "undrain [SCOPE/]GROUP PEER",
		Short: "End a drain: the peer gets new requests again",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := a.setDrain(cmd.Context(), "/v1/undrain", args)
			return failed(err)
		},
	}
	a.groupFlags(cmd)
	return cmd
}

// failed makes an error of the running server one of the work.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// setDrain gives a drain command and says what came of it.
func (a *asker) setDrain(ctx context.Context, command string, args []string) (server.DrainAnswer, error) {
	var d server.DrainAnswer
	in := server.DrainRequest{Group: args[0], Peer: args[1]}
	if a.vhost != "" {
		in.Group = "vhost:" + a.vhost + "/" + in.Group
	}
	if err := a.client().Post(ctx, command, in, &d); err != nil {
		return d, err
	}
	state := "takes new requests"
	if d.Draining {
		state = "is draining"
	}
	fmt.Printf("%s/%s: peer %d (%s) %s; with it: %s; peers that can have requests: %d\n",
		d.Scope, d.Group, d.Peer, d.Address, state, count(d.Active, "request"), d.Eligible)
	return d, nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// await waits until no request is with a drained peer.
func (a *asker) await(ctx context.Context, d server.DrainAnswer, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	q := url.Values{"scope": {d.Scope}, "group": {d.Group}}
	for active := d.Active; active > 0; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %v: still %s", wait, count(active, "request"))
		case <-time.After(100 * time.Millisecond):
		}
		var u status.Upstreams
		if err := a.client().Get(ctx, "/api/v1/upstreams?"+q.Encode(), &u); err != nil && ctx.Err() == nil {
			return err
		} else if err != nil {
			continue
		}
		if len(u.Groups) != 1 || len(u.Groups[0].Peers) <= d.Peer {
			return fmt.Errorf("a reload took the peer away")
		}
		if active = u.Groups[0].Peers[d.Peer].Active; active == 0 {
			fmt.Println("no request is with it")
		}
	}
	return nil
}

func statusCmd(dir *string) *cobra.Command {
	a := &asker{dir: dir}
	format := "text"
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say how the running server and its upstream groups are",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "text" && format != "json" {
				return fmt.Errorf("--format %q is unknown: use text or json", format)
			}
			var r report
			err := a.client().Get(cmd.Context(), "/api/v1/status", &r.Status)
			if err == nil {
				err = a.client().Get(cmd.Context(), "/api/v1/upstreams", &r.Upstreams)
			}
			if err != nil {
				return failure{err}
			}
			if format == "json" {
				enc := json.NewEncoder(os.Stdout)
				enc.SetIndent("", "  ")
				enc.SetEscapeHTML(false)
				return enc.Encode(r)
			}
			r.write(os.Stdout, time.Now())
			return nil
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&format, "format", "text", "text or json")
	return cmd
}

// report is what httpjet status tells.
type report struct {
	Status    status.Status    `json:"status"`
	Upstreams status.Upstreams `json:"upstreams"`
}

func (r *report) write(w io.Writer, now time.Time) {
	s := &r.Status
	state := "serving"
	if s.Draining {
		state = "draining"
	}
	fmt.Fprintf(w, "httpjet %s, %s for %v\n", s.Version, state, time.Duration(s.Uptime)*time.Second)
	g := &s.Generation
	fmt.Fprintf(w, "generation %d (hash %.12s), loaded %s\n", g.Number, g.Hash, g.LoadedAt.Format(time.RFC3339))
	if g.Reload.Result == "failure" {
		fmt.Fprintf(w, "last reload refused: %s\n", g.Reload.Error)
	}
	for _, d := range g.Degraded {
		fmt.Fprintf(w, "not served: %s\n", d)
	}
	fmt.Fprintf(w, "requests: %d finished, %d active; connections: %d; WebSockets: %d\n", s.Requests.Total, s.Requests.Active, s.Conns.Active, s.Relays)
	for _, l := range s.Leaving {
		fmt.Fprintf(w, "tunnels of %s, which is gone or changed: %d open, closed at %s\n", l.Name, l.Open, l.CloseAt.Format(time.RFC3339))
	}
	for _, l := range s.Listeners {
		fmt.Fprintf(w, "listener %s: %s %s\n", l.Name, l.Address, strings.Join(l.Protocols, " "))
	}
	for i := range r.Upstreams.Groups {
		writeGroup(w, &r.Upstreams.Groups[i], now)
	}
}

func writeGroup(w io.Writer, g *status.Group, now time.Time) {
	fmt.Fprintf(w, "\ngroup %s/%s: %s, %s", g.Scope, g.Name, g.Protocol, g.Policy)
	if c := g.Check; c != nil {
		fmt.Fprintf(w, ", %s every %gs", c.Mode, c.Interval)
	}
	for i, route := range g.Routes {
		sep := ", "
		if i == 0 {
			sep = "; for "
		}
		fmt.Fprintf(w, "%s%s %s", sep, route.VHost, route.URI)
	}
	fmt.Fprintf(w, "\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  PEER\tWEIGHT\tSTATE\tACTIVE\tCHOSEN\tFAILURES\tDIAL\tRESPONSE\tLAST PROBE\n")
	for _, p := range g.Peers {
		probe := "-"
		if p.Probe != nil {
			probe = strings.TrimSpace(p.Probe.Result+" "+p.Probe.Reason) + ", " + now.Sub(p.Probe.At).Round(time.Second).String() + " ago"
		}
		fmt.Fprintf(t, "  %d\t%d\t%s\t%d\t%d\t%d\t%s\t%s\t%s\n", p.Ordinal, p.Weight, p.State, p.Active, p.Selections, p.Failures, p.Dial, p.Response, probe)
	}
	t.Flush()
}
