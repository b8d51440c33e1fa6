package leak

import (
	"cmp"
	"time"
)

// Rounds of a scenario with a time budget: how many there are at most, and after which the judgement may end it
// first. Each has up to twice the operations of the one before.
const (
	MaxScaledRounds = 24
	FirstScaledLook = 6
)

// Linger is how long lingering growth may take to end: longer than the timeout of 30 s of most clients. Younger
// growth may still end.
const Linger = 40 * time.Second

// LingerTime is how long growth may linger in this scenario.
func (s *Spec) LingerTime() time.Duration { return cmp.Or(s.Linger.D(), Linger) }

// Looks are the rounds after which the judgement may end a variant, fixed before the run: every
// Rounds rounds, up to MaxRounds; every one from the sixth on where there is a time budget; those of a soak double.
func (s *Spec) Looks() []int {
	if s.Soak != nil {
		return s.Soak.looks()
	}
	var looks []int
	if s.For > 0 {
		for n := FirstScaledLook; n <= MaxScaledRounds; n++ {
			looks = append(looks, n)
		}
		return looks
	}
	for n := s.Rounds; n < s.MaxRounds; n += s.Rounds {
		looks = append(looks, n)
		if s.Rounds < 1 {
			break
		}
	}
	return append(looks, max(s.Rounds, s.MaxRounds))
}

// MostRounds is how many rounds there are at most.
func (s *Spec) MostRounds() int {
	if s.Soak != nil {
		return s.Soak.Rounds()
	}
	if s.For > 0 {
		return MaxScaledRounds
	}
	return max(s.Rounds, s.MaxRounds)
}

// Size is how often the actions of a round are performed in round n, counted from 1.
func (s *Spec) Size(n int) int {
	if len(s.Sizes) == 0 || n < 1 {
		return 1
	}
	return s.Sizes[(n-1)%len(s.Sizes)]
}
