package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"httpjet/server"
)

// cacheCmd is what an operator asks the page cache of a running server, and the caches of
// its proxied contexts.
func cacheCmd(dir *string) *cobra.Command {
	cmd := &cobra.Command{Use: "cache", Short: "Look into the caches of the running server, and purge them", Args: cobra.NoArgs}
	cmd.AddCommand(cacheListCmd(dir), cacheWhyCmd(dir), cachePurgeCmd(dir))
	return cmd
}

func cacheListCmd(dir *string) *cobra.Command {
	a := &asker{dir: dir}
	var in server.PagesRequest
	asJSON := false
	cmd := &cobra.Command{
		Use:   "list [/PATH]",
		Short: "List entries, the largest first",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				in.Path = args[0]
			}
			var out server.PagesAnswer
			if err := a.client().Post(cmd.Context(), "/v1/cache/list", in, &out); err != nil {
				return failure{err}
			}
			if asJSON {
				writeJSON(os.Stdout, out)
				return nil
			}
			writeEntries(os.Stdout, out.Entries)
			fmt.Printf("%d of %d entries\n", len(out.Entries), out.Count)
			return nil
		},
	}
	a.flags(cmd)
	addContextFlags(cmd, &in)
	cmd.Flags().StringVar(&in.VHost, "vhost", "", "virtual host; without it: all")
	cmd.Flags().IntVar(&in.Most, "most", 100, "entries to list, at most 1000")
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

// addContextFlags are the names of the cache of a proxied context.
func addContextFlags(cmd *cobra.Command, in *server.PagesRequest) {
	cmd.Flags().StringVar(&in.Context, "context", "", "only the proxyCache of the context with this uri")
	cmd.Flags().StringVar(&in.Processor, "processor", "", "only proxyCache of contexts that this processor answers for")
}

func cacheWhyCmd(dir *string) *cobra.Command {
	a := &asker{dir: dir}
	var in server.PagesRequest
	asJSON := false
	cmd := &cobra.Command{
		Use:     "why URL",
		Short:   "Say which entries a URL has, or why it has none",
		Example: "  httpjet cache why https://www.example.org/shop/",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.URL = args[0]
			var out server.PagesAnswer
			if err := a.client().Post(cmd.Context(), "/v1/cache/why", in, &out); err != nil {
				return failure{err}
			}
			if asJSON {
				writeJSON(os.Stdout, out)
				return nil
			}
			writeWhy(os.Stdout, &out)
			return nil
		},
	}
	a.flags(cmd)
	addContextFlags(cmd, &in)
	cmd.Flags().StringVar(&in.VHost, "vhost", "", "virtual host; without it: the one that the host name leads to")
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

func cachePurgeCmd(dir *string) *cobra.Command {
	a := &asker{dir: dir}
	var in server.PagesRequest
	cmd := &cobra.Command{
		Use:   "purge VHOST ITEM...",
		Short: "Purge entries of a virtual host and its proxied contexts, as X-LiteSpeed-Purge of an application does",
		Long: "ITEM is * for all, /path for all hosts, queries and variants of a path, /path?query, tag=NAME,\n" +
			"or one of these with * at its end for all that begin so. The word stale before them makes\n" +
			"entries stale: each is served once more while it is made anew. Caches of proxied contexts\n" +
			"have no tags, and nothing in them becomes stale: it goes.",
		Example: "  httpjet cache purge shop /products/7 'tag=front*' --dry-run",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.VHost, in.Items = args[0], strings.Join(args[1:], ",")
			var out server.PagesAnswer
			if err := a.client().Post(cmd.Context(), "/v1/cache/purge", in, &out); err != nil {
				return failure{err}
			}
			done := "purged"
			if in.DryRun {
				done = "would be purged"
			}
			fmt.Printf("%s: %s %s\n", out.VHost, countOf(out.Count, "entry", "entries"), done)
			return nil
		},
	}
	a.flags(cmd)
	addContextFlags(cmd, &in)
	cmd.Flags().BoolVar(&in.DryRun, "dry-run", false, "only say how many entries that is about")
	return cmd
}

func countOf(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func writeEntries(w io.Writer, list []server.PageEntry) {
	if len(list) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "VHOST\tURL\tKIND\tSTATUS\tBYTES\tSTATE\tAGE\tFRESH FOR\tVARY\tTAGS\n")
	for _, e := range list {
		kind := "public"
		switch {
		case e.Private:
			kind = "private"
		case e.Context != "":
			kind = "proxy " + e.Context
		}
		for _, c := range e.Codings {
			kind += ", " + c
		}
		if e.File {
			kind += ", file"
		}
		fmt.Fprintf(t, "%s\t%q\t%s\t%d\t%d\t%s\t%ds\t%ds\t%s\t%q\n", e.VHost, e.URL, kind, e.Status, e.Bytes, e.State, e.Age, e.Fresh,
			cmp.Or(strings.Join(e.Vary, ", "), "-"), strings.Join(e.Tags, ","))
	}
	t.Flush()
}

func writeWhy(w io.Writer, out *server.PagesAnswer) {
	if !out.Cached && !out.Proxied {
		fmt.Fprintf(w, "virtual host %s has no page cache, and its contexts have none\n", out.VHost)
		return
	}
	fmt.Fprintf(w, "virtual host %s: %s\n", out.VHost, countOf(out.Count, "entry", "entries"))
	writeEntries(w, out.Entries)
	if out.Last != nil {
		fmt.Fprintf(w, "the last answer that was not stored, at %s: %s\n", out.Last.At.Format("15:04:05"), out.Last.Why)
	} else if out.Count == 0 {
		fmt.Fprintf(w, "nobody has asked for it lately, or it was purged or too old\n")
	}
}
