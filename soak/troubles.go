package main

import (
	"context"
	"fmt"
	"time"

	"httpjet/internal/peers"
)

// reloads changes the configuration every few seconds.
func (s *soak) reloads(ctx context.Context) error {
	for version := 1; s.pause(ctx, 3*time.Second); version++ {
		if err := s.configure(version); err != nil {
			return err
		}
		s.extraAt.Store(-1) // it may be either way
		if err := s.reload(); err != nil {
			return err
		}
		s.extraAt.Store(int64(version % 2))
		s.notes[reloaded].Add(1)
	}
	return nil
}

// reload waits for upgrades: one that is under way would read the half of it.
func (s *soak) reload() error {
	s.orders.Lock()
	defer s.orders.Unlock()
	return s.jet.reload()
}

// upgradesAtMost is how many there are in a run, all in its first third, so that one
// process serves long enough that its growth can be seen.
const upgradesAtMost = 5

func (s *soak) upgrades(ctx context.Context) error {
	every := max(s.length/3/(upgradesAtMost+1), 3*time.Second)
	for i := 0; i < upgradesAtMost && time.Since(s.began)+every < s.length*2/5; i++ {
		if !s.pause(ctx, every) {
			return nil
		}
		s.orders.Lock()
		err := s.jet.upgrade()
		s.orders.Unlock()
		if err != nil {
			return err
		}
		s.upgradedAt.Store(time.Now().UnixNano())
		s.notes[upgraded].Add(1)
	}
	s.settled.Store(true)
	return nil
}

// murders kills upstreams for a second each: the one that is alone, and one of a pair.
func (s *soak) murders(ctx context.Context) error {
	victims := []*peers.Mortal{s.frail, s.left, s.frail, s.right}
	for i := 0; s.pause(ctx, 4*time.Second); i++ {
		m := victims[i%len(victims)]
		m.Down()
		s.pause(ctx, time.Second)
		var err error
		for range 100 { // somebody may have its port for a moment
			if err = m.Up(); err == nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if err != nil {
			return fmt.Errorf("upstream of this program: %w", err)
		}
		s.notes[killed].Add(1)
	}
	return nil
}
