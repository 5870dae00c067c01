package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// timelinesOf makes two requests with a timeline, one of which has to go on to a second
// peer, and looks at both on the page: one by its button, one by its id.
func (r *run) timelinesOf(tab context.Context, j *jet, shows func(what, want string) (string, error)) (string, error) {
	var ids []string
	for _, path := range []string{"/app/slow", "/broken/x"} {
		q, err := http.NewRequestWithContext(r.ctx, "GET", "http://"+j.http+path, nil)
		if err != nil {
			return "", err
		}
		q.Header.Set("X-Httpjet-Timeline", "1")
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if resp.Body.Close(); err != nil {
			return "", err
		}
		ids = append(ids, resp.Header.Get("X-Httpjet-Timeline"))
	}
	// Behind the switch of the section come the box, its button, and the newest request.
	err := chromedp.Run(tab, chromedp.Focus("#timelines-open summary", chromedp.ByQuery), chromedp.KeyEvent("\r"),
		chromedp.WaitVisible("#recent tbody button", chromedp.ByQuery))
	if err == nil {
		_, err = shows("#recent", ids[0])
	}
	if err == nil {
		err = chromedp.Run(tab, chromedp.KeyEvent("\t\t\t\r"))
	}
	if err == nil {
		_, err = shows("#timeline-name", ids[1])
	}
	if err == nil {
		_, err = shows("#bars", "transport_error")
	}
	var at string
	if err == nil {
		err = chromedp.Run(tab, chromedp.Evaluate("document.activeElement.id", &at), chromedp.Focus("#timeline-id", chromedp.ByQuery),
			chromedp.Evaluate(`document.getElementById("timeline-id").value = ""`, nil), chromedp.KeyEvent(ids[0]+"\r"))
	}
	if err == nil && at != "timeline" {
		err = fmt.Errorf("the focus is at %q, not at the timeline", at)
	}
	if err == nil {
		_, err = shows("#timeline-name", ids[0])
	}
	if err != nil {
		return "", err
	}
	for _, want := range []string{"peer ", "flush", "answer"} {
		if _, err := shows("#bars", want); err != nil {
			return "", err
		}
	}
	var head int // bars that wait for the head of a reply are as wide as it took
	if err := chromedp.Run(tab, chromedp.Evaluate(`Math.round(document.querySelector("#bars path.head")?.getBBox().width ?? 0)`, &head)); err != nil {
		return "", err
	}
	if head < 300 {
		return "", fmt.Errorf("the reply that came late has a bar of %d in 1000 for its head", head)
	}
	err = chromedp.Run(tab, chromedp.Focus("#timeline-id", chromedp.ByQuery), chromedp.Evaluate(`document.getElementById("timeline-id").value = "nobody"`, nil), chromedp.KeyEvent("\r"))
	if err == nil {
		_, err = shows("#timeline-said", "no timeline of nobody is kept")
	}
	return fmt.Sprintf("the head of a late reply has %d of 1000", head), errors.Join(err,
		chromedp.Run(tab, chromedp.Evaluate(`document.getElementById("timeline-id").value = ""`, nil), chromedp.KeyEvent(ids[0]+"\r"),
			chromedp.WaitVisible("#timeline", chromedp.ByQuery)))
}

// echoOrOK is an application that answers ok, in a while and in two parts if it is asked for slow, and below /live/ with an event stream.
func echoOrOK(w http.ResponseWriter, q *http.Request) {
	if !strings.HasPrefix(q.URL.Path, "/live/") {
		if strings.HasSuffix(q.URL.Path, "/slow") {
			time.Sleep(200 * time.Millisecond)
			fmt.Fprint(w, "in two parts: ")
			w.(http.Flusher).Flush()
			time.Sleep(50 * time.Millisecond)
		}
		fmt.Fprintln(w, "ok")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "data: 1\n\n")
	w.(http.Flusher).Flush()
	<-q.Context().Done()
}

// dashboard opens the page of the management listener in Chromium: what it shows, that
// it follows when a peer falls, both themes, use by keyboard, and a thousand peers.
func dashboard(r *run) error {
	var servers []*http.Server
	var addresses []string
	for range 2 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		s := &http.Server{Handler: http.HandlerFunc(echoOrOK)}
		go s.Serve(ln)
		defer s.Close()
		servers, addresses = append(servers, s), append(addresses, ln.Addr().String())
	}
	var groups strings.Builder
	for i := range 4 {
		var many strings.Builder
		for n := range 250 {
			fmt.Fprintf(&many, "<address>127.0.%d.%d:9</address>", i+1, n+1)
		}
		fmt.Fprintf(&groups, "<extProcessor><type>proxy</type><name>many%d</name>%s<loadBalancePolicy>round-robin</loadBalancePolicy></extProcessor><context><type>proxy</type><uri>/many%d/</uri><handler>many%d</handler></context>", i, many.String(), i, i)
	}
	j, err := r.serve(tree{name: "dashboard", server: "<tracing><timelineFrom>127.0.0.0/8</timelineFrom></tracing>", vhost: `<docRoot>$SERVER_ROOT/htdocs</docRoot>
  <extProcessor><type>proxy</type><name>app</name><address>` + addresses[0] + `</address><address>` + addresses[1] + `</address>
    <loadBalancePolicy>round-robin</loadBalancePolicy>
    <healthCheck><mode>GET</mode><path>/</path><interval>1</interval><timeout>1</timeout><rise>1</rise><fall>1</fall></healthCheck></extProcessor>
  <context><type>proxy</type><uri>/app/</uri><handler>app</handler><proxyCache><enable>1</enable></proxyCache></context>
  <extProcessor><type>proxy</type><name>broken</name><address>127.0.0.1:1</address></extProcessor>
  <context><type>proxy</type><uri>/broken/</uri><handler>broken</handler></context>
  <context><type>proxy</type><uri>/live/</uri><handler>app</handler></context>` + groups.String()})
	if err != nil {
		return err
	}
	defer r.down(j)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(1280, 1000))
	alloc, cancel := chromedp.NewExecAllocator(r.ctx, opts...)
	defer cancel()
	tab, cancel := chromedp.NewContext(alloc)
	defer cancel()
	tab, cancel = context.WithTimeout(tab, 2*time.Minute)
	defer cancel()

	var mu sync.Mutex
	var said []string
	chromedp.ListenTarget(tab, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			said = append(said, string(e.Type))
		case *runtime.EventExceptionThrown:
			said = append(said, e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			said = append(said, e.Entry.Text)
		}
	})
	text := func(what string) (out string, err error) {
		return out, chromedp.Run(tab, chromedp.Text(what, &out, chromedp.ByQuery))
	}
	shows := func(what, want string) (string, error) {
		var out string
		end := time.Now().Add(20 * time.Second)
		for {
			var err error
			if out, err = text(what); err != nil || strings.Contains(out, want) || time.Now().After(end) {
				if err == nil && !strings.Contains(out, want) {
					err = fmt.Errorf("%s shows %.300q, want %q", what, out, want)
				}
				return "", err
			}
			if err = chromedp.Run(tab, chromedp.Sleep(200*time.Millisecond)); err != nil {
				return "", err
			}
		}
	}

	r.check("the page shows the state", func() (string, error) {
		if err := chromedp.Run(tab, chromedp.Navigate("http://"+j.metrics+"/"), chromedp.WaitVisible("#groups .group", chromedp.ByQuery)); err != nil {
			return "", err
		}
		for what, want := range map[string]string{"#summary": "serving", "#listeners": j.http, "#generation": "generation\n1, loaded",
			"#shown": "1003 peers in 6 groups", "#group-list": "vhost:dashboard/app"} {
			if _, err := shows(what, want); err != nil {
				return "", err
			}
		}
		return "1,003 peers in 6 groups", nil
	})
	r.check("errors, caches and tunnels by generation", func() (string, error) {
		for range 4 {
			resp, err := http.Get("http://" + j.http + "/broken/x")
			if err != nil {
				return "", err
			}
			resp.Body.Close()
		}
		stream, err := http.Get("http://" + j.http + "/live/events")
		if err != nil {
			return "", err
		}
		defer stream.Body.Close()
		if err := r.command(r.bin, "--root", j.root, "reload"); err != nil {
			return "", err
		}
		for what, want := range map[string]string{"#errors": "upstream_transport", "#caches": "dashboard /app/\tentries", "#tunnels": "1\t1", "#generation": "generation\n2, loaded"} {
			if _, err := shows(what, want); err != nil {
				return "", err
			}
		}
		_, err = shows("#generation", "success")
		return "an event stream of generation 1 under generation 2", err
	})
	r.check("a reload that is refused", func() (string, error) {
		file := filepath.Join(j.root, "conf/vhosts/dashboard/vhconf.xml")
		good, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, []byte("<virtualHostConfig>"), 0o644)
		}
		if err != nil {
			return "", err
		}
		if err := r.command(r.bin, "--root", j.root, "reload"); err == nil {
			return "", errors.New("half a file was published")
		}
		if _, err = shows("#summary", "serving; the last reload was refused"); err == nil {
			_, err = shows("#generation", "conf/vhosts/dashboard/vhconf.xml:1:20: error E-XML")
		}
		if err := errors.Join(err, os.WriteFile(file, good, 0o644), r.command(r.bin, "--root", j.root, "reload")); err != nil {
			return "", err
		}
		_, err = shows("#generation", "success")
		return "named by file, line and code", err
	})
	r.check("it follows when a peer falls", func() (string, error) {
		began := time.Now()
		servers[1].Close()
		if err := chromedp.Run(tab, chromedp.Click("#trouble", chromedp.ByQuery)); err != nil {
			return "", err
		}
		if _, err := shows("#shown", "1 of 1003 peers"); err != nil {
			return "", err
		}
		if _, err := shows("#group-list", "down"); err != nil {
			return "", err
		}
		if _, err := shows("#summary", "1 peer has no requests"); err != nil {
			return "", err
		}
		took := time.Since(began)
		// The history is the server's: it is there for who opens the page now.
		if err := chromedp.Run(tab, chromedp.Reload(), chromedp.WaitVisible("#groups .group", chromedp.ByQuery)); err != nil {
			return "", err
		}
		var label string
		end := time.Now().Add(20 * time.Second)
		for !strings.Contains(label, "health checks succeeded") || strings.HasPrefix(label, "0 of") {
			if time.Now().After(end) {
				return "", fmt.Errorf("the chart of health checks says %q", label)
			}
			err := chromedp.Run(tab, chromedp.Sleep(200*time.Millisecond), chromedp.Evaluate(`document.querySelector(".probes svg:not([hidden])")?.getAttribute("aria-label") ?? ""`, &label))
			if err != nil {
				return "", err
			}
		}
		err := chromedp.Run(tab, chromedp.Evaluate(`document.getElementById("trouble").checked = true`, nil))
		return fmt.Sprintf("%.1f s from the fall to the page", took.Seconds()), err
	})
	r.check("keyboard: the filter is reached and used", func() (string, error) {
		var at string
		err := chromedp.Run(tab, chromedp.Click("#trouble", chromedp.ByQuery), chromedp.Focus("#pause", chromedp.ByQuery), chromedp.KeyEvent("\t"),
			chromedp.Evaluate("document.activeElement.id", &at))
		if err == nil && at != "filter" {
			err = fmt.Errorf("behind the button the focus is at %q", at)
		}
		if err == nil {
			err = chromedp.Run(tab, chromedp.KeyEvent("many2"))
		}
		if err == nil {
			_, err = shows("#shown", "250 of 1003 peers")
		}
		return "", errors.Join(err, chromedp.Run(tab, chromedp.Evaluate(`document.getElementById("filter").value = ""`, nil)))
	})
	r.check("timelines: chosen by keyboard, and by their id", func() (string, error) { return r.timelinesOf(tab, j, shows) })
	r.check("1,003 peers: how long an update keeps the page busy", func() (string, error) {
		var busy [2]float64 // the longest, all
		err := chromedp.Run(tab, chromedp.Evaluate(`new Promise(done => { let longest = 0, total = 0;
			new PerformanceObserver(l => l.getEntries().forEach(e => { longest = Math.max(longest, e.duration); total += e.duration; })).observe({type: "longtask", buffered: false});
			setTimeout(() => done([longest, total]), 10000); })`, &busy, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		return fmt.Sprintf("tasks over 50 ms in 10 s: %.0f ms in all, the longest %.0f ms", busy[1], busy[0]), err
	})
	shots := filepath.Join("bin", "dashboard")
	r.check("screenshots in both themes", func() (string, error) {
		if err := os.MkdirAll(shots, 0o755); err != nil {
			return "", err
		}
		colors := map[string]string{}
		for _, theme := range []string{"light", "dark"} {
			var png []byte
			var color string
			err := chromedp.Run(tab, chromedp.Evaluate(`window.scrollTo(0, 0)`, nil), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}),
				chromedp.Evaluate("getComputedStyle(document.body).backgroundColor", &color), chromedp.CaptureScreenshot(&png))
			if err != nil {
				return "", err
			}
			colors[color] = theme
			if err := os.WriteFile(filepath.Join(shots, theme+".png"), png, 0o644); err != nil {
				return "", err
			}
			if err := chromedp.Run(tab, chromedp.Evaluate(`document.getElementById("timeline").scrollIntoView()`, nil), chromedp.CaptureScreenshot(&png)); err != nil {
				return "", err
			}
			if err := os.WriteFile(filepath.Join(shots, "timeline-"+theme+".png"), png, 0o644); err != nil {
				return "", err
			}
		}
		if len(colors) != 2 {
			return "", fmt.Errorf("both themes look alike: %v", colors)
		}
		return "in " + shots, nil
	})
	r.check("no error in the console", func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(said) > 0 {
			return "", fmt.Errorf("%d: %.300q", len(said), said)
		}
		return "", nil
	})
	return nil
}
