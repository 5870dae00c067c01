package probes

import "testing"

func TestHistory(t *testing.T) {
	var last *Last
	add := func(ok bool) { last = (&Last{OK: ok}).after(last) }
	add(true)
	add(false)
	add(true)
	if h := last.History(); h != "+-+" {
		t.Errorf("%q", h)
	}
	for range historyMost {
		add(false)
	}
	if h := last.History(); h != "------------------------------" {
		t.Errorf("%q", h)
	}
	add(true)
	if h := last.History(); h != "-----------------------------+" {
		t.Errorf("%q", h)
	}
	if h := (&Last{}).History(); h != "" {
		t.Errorf("a probe that is not counted: %q", h)
	}
}
