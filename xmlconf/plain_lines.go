package xmlconf

import "strings"

// plainLines goes through the lines of a plain file.
type plainLines struct {
	file   string
	rest   string
	line   int    // number of the current line, from 1
	column int    // of the first character that is no blank
	text   string // of the current line, without blanks at both ends
}

// next moves to the next line; false at the end.
func (ls *plainLines) next() bool {
	if ls.rest == "" {
		return false
	}
	line, rest, _ := strings.Cut(ls.rest, "\n")
	ls.rest = rest
	ls.line++
	ls.text = strings.Trim(line, " \t\r")
	ls.column = 1 + len(line) - len(strings.TrimLeft(line, " \t\r"))
	return true
}

func (ls *plainLines) pos() Pos { return Pos{ls.file, ls.line, ls.column} }

// opening reports whether a line begins a block, and returns what stands before
// the brace.
func opening(text string) (string, bool) {
	before, ok := strings.CutSuffix(text, "{")
	if !ok || before == "" {
		return text, false
	}
	trimmed := strings.TrimRight(before, " \t")
	if trimmed == before && strings.ContainsAny(before, " \t") {
		return text, false // a value that ends in a brace
	}
	return trimmed, true
}

// braceAlone takes the next line if it is nothing but an opening brace.
func (ls *plainLines) braceAlone() bool {
	ahead := *ls
	for ahead.next() {
		switch ahead.text {
		case "":
			continue
		case "{":
			*ls = ahead
			return true
		}
		return false
	}
	return false
}

// continued joins the lines behind a value that ends in a backslash.
func (ls *plainLines) continued(s *plainSetting) {
	for {
		before, more := strings.CutSuffix(s.value, `\`)
		if !more || !ls.next() {
			return
		}
		s.value = strings.TrimRight(before, " \t") + " " + ls.text
	}
}

// heredoc reads the lines of a value up to one that holds end alone.
func (ls *plainLines) heredoc(s *plainSetting, end string) error {
	s.value, s.valueAt = "", Pos{}
	from, start := ls.rest, 0
	for ls.next() {
		if ls.text == end {
			s.value = strings.TrimSpace(strings.ReplaceAll(from[:start], "\r\n", "\n"))
			return nil
		}
		if ls.text != "" && s.valueAt.Line == 0 {
			s.valueAt = ls.pos()
		}
		start = len(from) - len(ls.rest)
	}
	return plainFail(s.pos, "end it with a line "+cut(end), "the value of %s does not end", cut(s.key))
}

// raw reads the lines of a block as text.
func (ls *plainLines) raw(n *Node, at Pos) error {
	var text []string
	for ls.next() {
		if ls.text == "}" {
			n.Text = strings.TrimSpace(strings.Join(text, "\n"))
			return nil
		}
		if ls.text != "" && n.TextPos.Line == 0 {
			n.TextPos = ls.pos()
		}
		text = append(text, ls.text)
	}
	return plainFail(at, "close it with }", "block %s is not closed", cut(n.Name))
}
