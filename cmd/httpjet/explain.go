package main

import (
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"httpjet/check"
	"httpjet/exchange"
	"httpjet/server"
)

func explainCmd(dir *string) *cobra.Command {
	var q check.Question
	var fields []string
	var cookie, ip, format string
	var running bool
	a := &asker{dir: dir}
	cmd := &cobra.Command{
		Use:   "explain URL",
		Short: "Say step by step what becomes of a request, and why",
		Long: "Loads the tree as serve does and decides the request by the same code, without\n" +
			"asking an upstream: listener, virtual host, client, access, context, file or\n" +
			"application, and the request that would go to the upstream.\n\n" +
			"The listener is the one with the URL's port, else the first of its scheme. A field\n" +
			"Host goes before the host of the URL, which then only chooses the certificate.",
		Example: "  httpjet --root /usr/local/lsws explain https://www.example.com/blog/?p=1 --ip 192.0.2.7",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.URL = args[0]
			for _, f := range fields {
				name, value, ok := strings.Cut(f, ":")
				if !ok {
					return fmt.Errorf("--header %q: write 'Name: value'", f)
				}
				q.Fields = append(q.Fields, exchange.Field{Name: name, Value: strings.TrimSpace(value)})
			}
			if cookie != "" {
				q.Fields = append(q.Fields, exchange.Field{Name: "Cookie", Value: cookie})
			}
			if ip != "" {
				var err error
				if q.Client, err = netip.ParseAddr(ip); err != nil {
					return fmt.Errorf("--ip %q is no address", ip)
				}
			}
			if format != "text" && format != "json" {
				return fmt.Errorf("--format %q is unknown: use text or json", format)
			}
			if running {
				return failed(a.explain(cmd.Context(), q, format == "json"))
			}
			_, err := check.Explain(check.Options{Root: *dir, Format: format, Version: server.Version}, q, os.Stdout)
			if err != nil {
				return failure{err}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&running, "running", false, "ask the running server, which knows the state of peers, instead of the tree")
	a.flags(cmd)
	cmd.Flags().StringVar(&q.Method, "method", "GET", "request method")
	cmd.Flags().StringArrayVarP(&fields, "header", "H", nil, "request field, 'Name: value'; may be repeated")
	cmd.Flags().StringVar(&cookie, "cookie", "", "value of the Cookie field")
	cmd.Flags().StringVar(&ip, "ip", "", "address of the client (127.0.0.1)")
	cmd.Flags().StringVar(&q.Proto, "proto", "h1", "protocol of the client: h1, h2 or h3")
	cmd.Flags().StringVar(&format, "format", "text", "text or json")
	return cmd
}
