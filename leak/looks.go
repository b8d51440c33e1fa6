package leak

// Looks are the rounds after which the judgement may end a variant, fixed before the run: every
// Rounds rounds, up to MaxRounds; those of a soak double.
func (s *Spec) Looks() []int {
	if s.Soak != nil {
		return s.Soak.looks()
	}
	var looks []int
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
	return max(s.Rounds, s.MaxRounds)
}

// Size is how often the actions of a round are performed in round n, counted from 1.
func (s *Spec) Size(n int) int {
	if len(s.Sizes) == 0 || n < 1 {
		return 1
	}
	return s.Sizes[(n-1)%len(s.Sizes)]
}
