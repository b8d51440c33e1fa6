package bisect

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/leakrig/leakrig/leak"
)

// Oracle measures versions.
type Oracle interface {
	// Measure builds and measures one version. ahead are versions that may come next, likeliest first, which can be
	// built at the same time. An unavailable version is a skipped step; an error ends the search.
	Measure(ctx context.Context, c Candidate, ahead []Candidate) (Step, error)
}

// Config is one session of a bisection.
type Config struct {
	// Record holds the question, the candidates, and the steps of earlier sessions.
	Record *Record
	Oracle Oracle
	// Save keeps the record after every step.
	Save     func(*Record) error
	Progress leak.Progress
	Now      func() time.Time
	// Begun is when the session began; zero for now.
	Begun time.Time
}

// Run searches until the record has an answer. An error means that the search could not continue; the record then
// ends with the last complete step.
func Run(ctx context.Context, c Config) error {
	r := c.Record
	begun, earlier := c.Begun, r.Seconds
	if begun.IsZero() {
		begun = c.Now()
	}
	save := func() error {
		r.Seconds = earlier + c.Now().Sub(begun).Seconds()
		return c.Save(r)
	}
	for err := save(); ; err = save() {
		if err != nil {
			return err
		}
		next := r.next()
		if next == nil {
			break
		}
		if ctx.Err() != nil {
			return c.stop(ctx, context.Cause(ctx), save)
		}
		c.Progress.Log("step %d: %s (%s)", len(r.Steps)+1, next.candidate.Name(), next.why)
		step, err := c.Oracle.Measure(ctx, next.candidate, r.ahead(*next))
		if err != nil {
			return c.stop(ctx, fmt.Errorf("step %d: %s: %w", len(r.Steps)+1, next.candidate.Name(), err), save)
		}
		step.Version, step.Why = next.candidate.Version, next.why
		step.At = c.Now().UTC().Truncate(time.Second)
		r.Steps = append(r.Steps, step)
		c.Progress.Log("step %d: %s: %s", len(r.Steps), next.candidate.Name(), stepLine(step))
	}
	r.conclude()
	r.Finished = c.Now().UTC().Truncate(time.Millisecond)
	return save()
}

// stop saves the steps so far when the search cannot continue. An interruption is not a failure.
func (c Config) stop(ctx context.Context, why error, save func() error) error {
	if ctx.Err() != nil {
		c.Record.Interrupted = true
		return save()
	}
	c.Record.Failure = &leak.Failure{Message: why.Error(), Hint: leak.Hint(why)}
	if err := save(); err != nil {
		return err
	}
	return why
}

// stepLine formats a step in one line.
func stepLine(s Step) string {
	text := string(s.State)
	if s.Reason != "" {
		first, _, _ := strings.Cut(s.Reason, "\n")
		text += ": " + first
	}
	return text
}

// searches are the searches of the record: one, or one for each release line.
func (r *Record) searches() []search {
	q := r.Question
	if !q.AllLines {
		return []search{{candidates: r.Candidates, steps: r.Steps, bad: q.Bad, good: q.Good, repeats: q.Repeats, spots: q.Spots}}
	}
	var all []search
	for _, c := range r.Candidates {
		if len(all) == 0 || all[len(all)-1].line() != c.Line {
			all = append(all, search{steps: r.Steps, candidates: []Candidate{c}, repeats: q.Repeats, spots: q.Spots})
			continue
		}
		last := &all[len(all)-1]
		last.candidates = append(last.candidates, c)
	}
	return all
}

// Budget is the most measured steps that the searches take, where none has to be repeated.
func (r *Record) Budget() int {
	steps := 0
	for _, s := range r.searches() {
		steps += Budget(len(s.candidates))
	}
	return steps
}

// step is a measurement that comes next.
type step struct {
	candidate Candidate
	why       string
}

// next returns the next measurement, nil if there is none.
func (r *Record) next() *step {
	for _, s := range r.searches() {
		if f := s.look(); f.next != nil {
			return &step{s.candidates[f.next.at], f.next.why}
		}
	}
	return nil
}

// ahead are the versions that may come after the next one, whichever way it turns out.
func (r *Record) ahead(next step) []Candidate {
	var all []Candidate
	for _, state := range []State{Leaky, Clean} {
		future := *r
		future.Steps = append(r.Steps[:len(r.Steps):len(r.Steps)], Step{Version: next.candidate.Version, State: state, Why: next.why})
		if then := future.next(); then != nil && then.candidate != next.candidate && (len(all) == 0 || all[0] != then.candidate) {
			all = append(all, then.candidate)
		}
	}
	return all
}

// conclude writes the answers, once every search is over.
func (r *Record) conclude() {
	r.Answers, r.Result = nil, leak.Met
	var results []leak.Result
	var sentences []string
	for _, s := range r.searches() {
		a := s.answer(s.look(), r.Missing, r.LeftOut)
		r.Answers = append(r.Answers, a)
		results = append(results, a.Result)
		sentence := a.Sentence
		if a.Line != "" {
			sentence = a.Line + ": " + sentence
		}
		sentences = append(sentences, sentence)
	}
	if r.Question.AllLines {
		for _, wrong := range r.wrongEnds() {
			results, sentences = append(results, leak.NotMet), append(sentences, wrong)
		}
	}
	r.Result = leak.Worst(results...)
	r.Sentence = strings.Join(sentences, "; ")
}

// wrongEnds describes the ends whose state is not as given. A search of each release line does not depend on them,
// but the user should know.
func (r *Record) wrongEnds() []string {
	all := search{candidates: r.Candidates, steps: r.Steps, bad: r.Question.Bad, good: r.Question.Good}
	var wrong []string
	for at := range r.Candidates {
		said, state := all.said(at), all.state(at)
		if said != "" && (state == Leaky || state == Clean) && state != said {
			wrong = append(wrong, all.wrongEndsSentence([]int{at}))
		}
	}
	return wrong
}
