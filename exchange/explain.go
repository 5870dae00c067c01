package exchange

import "fmt"

// Explanation records the decisions about one exchange, for people. The exchange
// is decided by the code that decides every other one, but its handler, if it
// has effects outside, explains itself instead of serving (Explainer).
type Explanation struct {
	Steps []Step

	// Rules notes the rewrite rules of all programs that ran, as "file:line", and whether
	// they matched; nil: nobody wants to know.
	Rules map[string]bool
}

// Step is one decision, in the order of dispatch.
type Step struct {
	Name    string   `json:"step"`              // what was decided, as docs/vocabulary.md calls it
	Text    string   `json:"text"`              // how, and why
	Details []string `json:"details,omitempty"` // what else there was, a line each
}

// Explainer is a handler that can say what it would do instead of doing it. Its
// error is the one that Serve would have returned for the same reason.
type Explainer interface {
	Explain(x *Exchange) error
}

// Explain makes x record its decisions in e, until Reset.
func (x *Exchange) Explain(e *Explanation) { x.explanation = e }

// Explaining reports whether x is explained. It is asked before anything is
// worked out for a note.
func (x *Exchange) Explaining() bool { return x.explanation != nil }

// Rule notes a rewrite rule that was asked, or could have been.
func (x *Exchange) Rule(file string, line int, matched bool) {
	if x.explanation != nil && x.explanation.Rules != nil {
		place := fmt.Sprintf("%s:%d", file, line)
		x.explanation.Rules[place] = x.explanation.Rules[place] || matched
	}
}

// Note records a step of an exchange that is explained.
func (x *Exchange) Note(step, format string, args ...any) {
	x.explanation.Steps = append(x.explanation.Steps, Step{Name: step, Text: fmt.Sprintf(format, args...)})
}

// Detail adds a line to the last step.
func (x *Exchange) Detail(format string, args ...any) {
	s := &x.explanation.Steps[len(x.explanation.Steps)-1]
	s.Details = append(s.Details, fmt.Sprintf(format, args...))
}

// ServeOrExplain answers x with h, or, if x is explained and h has effects, has h
// explain itself.
func (x *Exchange) ServeOrExplain(h Handler) error {
	if x.explanation != nil {
		if e, ok := h.(Explainer); ok {
			return e.Explain(x)
		}
	}
	return h.Serve(x)
}
