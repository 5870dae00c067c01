// Command mock is the other side of the demonstration with containers: an
// application that tells its name, and a client that keeps asking. It is no part of
// httpjet.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: mock backend|traffic [flags]")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch os.Args[1] {
	case "backend":
		backend(ctx, os.Args[2:])
	case "traffic":
		traffic(ctx, os.Args[2:])
	default:
		log.Fatalf("mock: %q is neither backend nor traffic", os.Args[1])
	}
}

// backend answers /health with 200 and everything else with its name; with -fail,
// paths below /breaker with 502.
func backend(ctx context.Context, args []string) {
	f := flag.NewFlagSet("backend", flag.ExitOnError)
	addr := f.String("addr", ":8000", "address to listen at")
	name := f.String("name", "backend", "what it calls itself")
	fail := f.Bool("fail", false, "answer 502 below /breaker")
	f.Parse(args)

	var served atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if *fail && strings.HasPrefix(r.URL.Path, "/breaker") {
			http.Error(w, *name+" fails", http.StatusBadGateway)
			return
		}
		time.Sleep(time.Duration(1+rand.IntN(20)) * time.Millisecond) // an application that works
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, "{\"backend\":%q,\"served\":%d,\"path\":%q}\n", *name, served.Add(1), r.URL.Path)
	})
	srv := &http.Server{Addr: *addr, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { srv.Close() })
	if err := srv.ListenAndServe(); err != http.ErrServerClosed {
		log.Fatal("mock: ", err)
	}
}

// traffic asks for each path in turn until it is told to stop, and says every ten
// seconds what came back.
func traffic(ctx context.Context, args []string) {
	f := flag.NewFlagSet("traffic", flag.ExitOnError)
	url := f.String("url", "http://127.0.0.1:8080", "what to ask")
	rate := f.Float64("rate", 20, "requests a second")
	paths := f.String("paths", "/api/,/api/,/api/,/limited/,/breaker/,/", "paths, with commas between")
	f.Parse(args)
	if *rate <= 0 || *rate > 10000 {
		log.Fatal("mock: -rate is above 0 and at most 10000")
	}

	client := &http.Client{Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	list, counts := strings.Split(*paths, ","), map[string]int{}
	tick := time.NewTicker(time.Duration(float64(time.Second) / *rate))
	defer tick.Stop()
	for n, told := 0, time.Now(); ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		req, err := http.NewRequestWithContext(ctx, "GET", *url+list[n%len(list)], nil)
		if err != nil {
			log.Fatal("mock: ", err)
		}
		resp, err := client.Do(req)
		if err != nil {
			counts["failed"]++
		} else {
			io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
			resp.Body.Close()
			counts[resp.Status[:3]]++
		}
		if time.Since(told) > 10*time.Second {
			log.Println("answers:", counts)
			counts, told = map[string]int{}, time.Now()
		}
	}
}
