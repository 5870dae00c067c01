package metrics

import (
	"fmt"
	"testing"
	"time"
)

// Certificates have as many series as are of use: those that end first, each name once.
func TestCertificatesThatEndFirst(t *testing.T) {
	now := time.Now()
	var list []Certificate
	for i := range 100 {
		list = append(list, Certificate{fmt.Sprintf("h%d.test", i), "file", now.Add(time.Duration(100-i) * time.Hour)})
	}
	list = append(list, Certificate{"h99.test", "file", now.Add(200 * time.Hour)}, Certificate{"h99.test", "acme", now})
	got := firstToEnd(list)
	if len(got) != maxCertificates || got[0] != list[101] || got[1] != list[99] || got[31] != list[69] {
		t.Errorf("%d: %v", len(got), got)
	}
	if list[0].Name != "h0.test" {
		t.Error("the caller's list is another one")
	}
}
