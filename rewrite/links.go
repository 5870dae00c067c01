package rewrite

// Links is how symbolic links are treated below a directory.
type Links uint8

// From the strictest on.
const (
	LinksRefused Links = iota
	LinksOfOwner       // followed where their owner owns what they lead to
	LinksFollowed
)

// DirLinks is how names are treated that begin at End or behind it in the path of a
// Chain, until those of the next.
type DirLinks struct {
	End   int
	Links Links
}

// SaysLinks reports whether some file on the way says anything of symbolic links.
func (c *Chain) SaysLinks() bool {
	for i := range c.n {
		if c.at(i).links {
			return true
		}
	}
	return false
}

// Links returns what Options of the files on the way to the path say of symbolic
// links, the outer ones first; nil if they say nothing. start is what holds before
// them. An inner file may lift what an outer one says, as in Apache: it is the virtual
// host that bounds both. r.Path is not read.
func (c *Chain) Links(start Links, r Request) (list []DirLinks) {
	r.Name, r.host = c.name, c.d.opt.Host
	if r.URL == "" {
		r.URL = c.url()
	}
	now := start
	for i := range c.n {
		f := c.at(i)
		if !f.links {
			continue
		}
		next := f.say.linksAfter(now, &r)
		if next != now {
			list = append(list, DirLinks{c.endOf(i), next})
		}
		now = next
	}
	return list
}

// linksAfter is what holds behind s. A container may make links stricter unless it is
// known not to hold, and looser only if it is known to: which file is meant is not
// known yet where links are asked for, so containers about names are about all.
func (s *section) linksAfter(now Links, r *Request) Links {
	m := &s.match
	holds := unknown
	if m.glob == "" && m.regex == nil {
		holds = s.holds(r)
	}
	if holds == no {
		return now
	}
	next := now
	if s.said != nil {
		for _, w := range s.said.links {
			next = w.after(next)
		}
	}
	for _, kid := range s.kids {
		next = kid.linksAfter(next, r)
	}
	if holds != yes {
		next = min(next, now)
	}
	return next
}

func (w linkWord) after(now Links) Links {
	switch {
	case !w.minus:
		return w.links
	case w.links == now:
		return LinksRefused
	}
	return now
}
