package pagecache

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// doomed is set in the process that TestKilledInMidWrite kills: its directory and seed.
const doomed = "PAGECACHE_DOOMED"

// crashBody is a body of any size that says by every piece of it which one it is: of
// which page, the n-th that was made.
func crashBody(target string, n int) string {
	size := []int{10, 3000, 70_000, 1_500_000}[n%4]
	piece := fmt.Sprintf("%s %d;", target, n)
	return strings.Repeat(piece, size/len(piece)+1) + "end"
}

// storeUntilKilled stores and purges, and tells of each when it is done.
func storeUntilKilled(text string) error {
	dir, seed, _ := strings.Cut(text, " ")
	var number uint64
	fmt.Sscan(seed, &number)
	r := rand.New(rand.NewPCG(number, 9))
	s := newSite(Options{})
	d, err := s.Cache.Disk(dir)
	if err != nil {
		return err
	}
	s.Disk = d
	d.load(context.Background(), s.Cache)
	now := time.Now()
	for n := 1; ; n++ {
		target := fmt.Sprint("/", r.IntN(6))
		if r.IntN(5) == 0 {
			s.ask(get{target: "/p", now: now}, says(200, "X-LiteSpeed-Purge: "+target, ""))
			fmt.Println("purged", n, target)
			continue
		}
		s.ask(get{target: target, now: now, method: "POST"}, says(200, "X-LiteSpeed-Purge: "+target, "")) // so that it is stored anew
		s.ask(get{target: target, now: now}, says(200, opted, crashBody(target, n)))
		fmt.Println("stored", n, target)
	}
}

// A process is killed while it writes, wherever it is: what the next one serves is whole,
// is of its URL, and was not purged.
func TestKilledInMidWrite(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	r := rand.New(rand.NewPCG(1, 2))
	whole := 0
	for round := range rounds {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", doomed, dir, round))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		least := map[string]int{} // of each page what was made later is the only one that may be served
		in, lines := bufio.NewScanner(out), 5+r.IntN(60)
		for killed := false; in.Scan(); { // also what it has said before it was dead
			var n int
			var what, target string
			if _, err := fmt.Sscan(in.Text(), &what, &n, &target); err != nil {
				break // a line that is cut
			}
			least[target] = n
			if lines--; lines <= 0 && !killed {
				killed = true
				cmd.Process.Kill()
			}
		}
		cmd.Wait()
		s := onDisk(t, dir, Options{})
		for i := range 6 {
			target := fmt.Sprint("/", i)
			got := s.ask(get{target: target, now: time.Now()}, says(404, "", "none"))
			if got.status == 404 {
				continue
			}
			var n int
			fmt.Sscanf(got.body, target+" %d;", &n)
			if got.cut || got.err != nil || got.body != crashBody(target, n) || n < least[target] {
				t.Fatalf("round %d: %s: %d bytes, made as number %d, %d is known: %.60q", round, target, len(got.body), n, least[target], got.body)
			}
			whole++
		}
		s.Cache.Close()
	}
	t.Logf("%d kills, %d bodies that survived, all whole", rounds, whole)
	if whole == 0 {
		t.Error("nothing has survived")
	}
}
