package check

import (
	"fmt"
	"io"
	"strings"

	"httpjet/generation"
	"httpjet/xmlconf"
)

// Summary is the tree at a glance.
type Summary struct {
	ServerName string      `json:"server_name"`
	RunAs      string      `json:"run_as,omitempty"`
	Tuning     string      `json:"tuning"`
	Listeners  []Listener  `json:"listeners"`
	Processors []Processor `json:"processors"`
	VHosts     []VHost     `json:"vhosts"`
}

// Listener is one line of the summary.
type Listener struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Secure  bool   `json:"secure"`
	Opens   bool   `json:"opens"` // it will be bound
	Maps    int    `json:"maps"`

	stapling bool // asked for, and not implemented
}

// Processor is one line of the summary; addresses hold no credentials.
type Processor struct {
	Scope     string   `json:"scope"`
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Addresses []string `json:"addresses"`
}

// VHost is one line of the summary.
type VHost struct {
	Name    string `json:"name"`
	Loaded  bool   `json:"loaded"`
	DocRoot string `json:"doc_root,omitempty"`
}

func summarize(cfg *xmlconf.Config, g *generation.Generation) *Summary {
	s := cfg.Server
	out := &Summary{ServerName: s.ServerName, Listeners: []Listener{}, Processors: []Processor{}, VHosts: []VHost{},
		Tuning: fmt.Sprintf("maxConnections %d, connTimeout %v, keepAliveTimeout %v, maxReqBodySize %d", s.Tuning.MaxConnections,
			s.Tuning.ConnTimeout, s.Tuning.KeepAliveTimeout, s.Tuning.MaxReqBodySize)}
	if s.User != "" || s.Group != "" {
		out.RunAs = s.User + ":" + s.Group
	}
	opens := map[string]bool{}
	for _, l := range g.Listeners {
		opens[l.Name] = true
	}
	for _, l := range s.Listeners {
		out.Listeners = append(out.Listeners, Listener{l.Name, l.Address, l.Secure, opens[l.Name], len(cfg.Mappings(l)), l.Stapling})
	}
	out.addProcessors("server", s.ExtProcessors)
	for _, h := range cfg.VHosts {
		v := VHost{Name: h.Name, Loaded: h.Conf != nil}
		if h.Conf != nil {
			v.DocRoot = h.Conf.DocRoot
			out.addProcessors("vhost:"+h.Name, h.Conf.ExtProcessors)
		}
		out.VHosts = append(out.VHosts, v)
	}
	return out
}

func (s *Summary) addProcessors(scope string, list []*xmlconf.ExtProcessor) {
	for _, p := range list {
		out := Processor{Scope: scope, Name: p.Name, Type: strings.ToLower(p.Type), Addresses: []string{}}
		for _, t := range p.Targets {
			scheme := t.Scheme
			if t.Network == "unix" {
				scheme = "unix"
			}
			if scheme != "" {
				scheme += "://"
			}
			out.Addresses = append(out.Addresses, scheme+t.Address)
		}
		s.Processors = append(s.Processors, out)
	}
}

func (r *Report) writeText(w io.Writer) {
	fmt.Fprintf(w, "root: %s\n", r.Root)
	if s := r.Summary; s != nil {
		fmt.Fprintf(w, "server name: %s\n", s.ServerName)
		if s.RunAs != "" {
			fmt.Fprintf(w, "run as: %s (no effect: httpjet keeps the user it is started as)\n", s.RunAs)
		}
		fmt.Fprintf(w, "tuning: %s\n", s.Tuning)
		for _, l := range s.Listeners {
			flags := ""
			if l.Secure {
				flags += " TLS"
			}
			if l.stapling {
				flags += " (OCSP stapling is not implemented)"
			}
			if !l.Opens {
				flags += " (not opened)"
			}
			fmt.Fprintf(w, "listener: %s %s%s\n", l.Name, l.Address, flags)
		}
		for _, p := range s.Processors {
			fmt.Fprintf(w, "processor: %s/%s %s %s\n", p.Scope, p.Name, p.Type, strings.Join(p.Addresses, ", "))
		}
		loaded := 0
		for _, v := range s.VHosts {
			if v.Loaded {
				loaded++
			}
		}
		fmt.Fprintf(w, "virtual hosts: %d, %d files loaded\n", len(s.VHosts), loaded)
		for _, v := range s.VHosts {
			root := v.DocRoot
			if !v.Loaded {
				root = "(not loaded)"
			}
			fmt.Fprintf(w, "  %s %s\n", v.Name, root)
		}
		fmt.Fprintf(w, "vhost-map-fingerprint: %s\n", r.Fingerprint)
	}
	counts := map[string]int{}
	for _, f := range r.Findings {
		counts[f.Severity]++
		fmt.Fprintln(w, "  "+f.lint())
	}
	verdict := "ok"
	if !r.OK {
		verdict = "failed"
	}
	known := ""
	if r.Known > 0 {
		known = fmt.Sprintf(", %d known", r.Known)
	}
	fmt.Fprintf(w, "%s: %d errors, %d warnings, %d remarks%s\n", verdict, counts["error"], counts["warn"], counts["info"], known)
}

// lint is one line for people.
func (f Finding) lint() string {
	line := fmt.Sprintf("lint %-5s: [%s] ", strings.ToUpper(f.Severity), f.Code)
	if f.File != "" {
		line += fmt.Sprintf("%s:%d:%d: ", f.File, f.Line, f.Column)
	}
	line += f.Message
	if f.Hint != "" {
		line += " (" + f.Hint + ")"
	}
	return line
}
