package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// What promtool check metrics says of all families: nothing.
func TestLint(t *testing.T) {
	problems, err := promlint.NewWithMetricFamilies(families(t, full())).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
