// Command pgo merges CPU profiles into the one that the compiler is given. Each weighs
// the same, however long it ran; what tells of the machine is left out.
//
//	go run ./pgo OUT IN...
package main

import (
	"fmt"
	"os"

	"github.com/google/pprof/profile"
)

// weight is what the samples of one profile come to, in ns: enough that halves of a
// microsecond are not lost.
const weight = 1e12

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: pgo OUT IN...")
		os.Exit(2)
	}
	if err := merge(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "pgo:", err)
		os.Exit(1)
	}
}

func merge(out string, in []string) error {
	var all []*profile.Profile
	for _, name := range in {
		p, err := read(name)
		if err != nil {
			return fmt.Errorf("%s: %v", name, err)
		}
		if p != nil {
			all = append(all, p)
		}
	}
	p, err := profile.Merge(all)
	if err != nil {
		return err
	}
	p.TimeNanos, p.DurationNanos, p.Comments = 0, 0, nil
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	if err := p.Write(f); err != nil {
		return err
	}
	return f.Close()
}

// read returns a profile in which only functions, lines and weights are left, nil if it
// has no samples: of a server that was asked nothing.
func read(name string) (*profile.Profile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() == 0 {
		return nil, err
	}
	p, err := profile.Parse(f)
	if err != nil {
		return nil, err
	}
	last := len(p.SampleType) - 1 // CPU time, behind the count
	var sum int64
	for _, s := range p.Sample {
		sum += s.Value[last]
	}
	if sum < 1e9 { // a second
		return nil, nil
	}
	p.Scale(weight / float64(sum))
	for _, m := range p.Mapping {
		m.Start, m.Limit, m.Offset, m.File, m.BuildID = 0, 0, 0, "", ""
	}
	for _, l := range p.Location {
		l.Address = 0
	}
	return p, nil
}
