package probes

// queue is a heap of tasks, the one that is due first at its head.
type queue []*task

func (q queue) init() {
	for i := len(q)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

// sink puts the head, whose time has moved on, to its place.
func (q queue) sink() { q.down(0) }

func (q queue) down(i int) {
	for {
		first := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(q); c++ {
			if q[c].Clock.due.Before(q[first].Clock.due) {
				first = c
			}
		}
		if first == i {
			return
		}
		q[i], q[first] = q[first], q[i]
		i = first
	}
}
