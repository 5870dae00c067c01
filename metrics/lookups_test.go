package metrics

import "testing"

func TestLookups(t *testing.T) {
	m := New()
	f := func(series string, want float64) {
		t.Helper()
		if v := value(scrape(t, m), "httpjet_dns_"+series); v != want {
			t.Errorf("%s is %v, want %v", series, v, want)
		}
	}
	f(`lookups_total{result="success"}`, 0) // there before the first one
	m.Watch(Gauges{Lookups: func() Lookups { return Lookups{Success: 4, NotFound: 3, Failure: 2, StaleAnswers: 1} }})
	f(`lookups_total{result="success"}`, 4)
	f(`lookups_total{result="not_found"}`, 3)
	f(`lookups_total{result="failure"}`, 2)
	f(`stale_answers_total`, 1)
}
