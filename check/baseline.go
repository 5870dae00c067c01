package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
)

// identity is what makes a finding a known one. The position is not part of it,
// so that lines above it may be edited.
type identity struct{ code, file, element, message string }

func (f Finding) identity() identity { return identity{f.Code, f.File, f.Element, f.Message} }

// baseline counts known findings: a second one like it is new.
type baseline map[identity]int

// without returns the findings that are not known, and how many are.
func (b baseline) without(all []Finding) (rest []Finding, known int) {
	left := baseline{}
	maps.Copy(left, b)
	rest = make([]Finding, 0, len(all))
	for _, f := range all {
		if id := f.identity(); left[id] > 0 {
			left[id]--
			known++
			continue
		}
		rest = append(rest, f)
	}
	return rest, known
}

// baselineFile is the form of a baseline. It is part of the JSON report's, so
// that one is accepted too.
type baselineFile struct {
	Findings []Finding `json:"findings"`
}

func readBaseline(path string) (baseline, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f baselineFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if f.Findings == nil {
		return nil, fmt.Errorf("%s: no findings; it is written by check --write-baseline", path)
	}
	b := baseline{}
	for _, k := range f.Findings {
		b[k.identity()]++
	}
	return b, nil
}

// writeBaseline replaces the file at once, so that a check beside it never reads
// half of one.
func writeBaseline(path string, all []Finding) error {
	var text bytes.Buffer
	if err := writeJSON(&text, baselineFile{all}); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".baseline-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.Write(text.Bytes())
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
