package leak

import "github.com/leakrig/leakrig/leak/display"

// Cut returns a copy of the stack that is limited to its innermost frames, with each name limited to name bytes. Reports use
// it for pages that would be too large.
func (s Stack) Cut(frames, name int) Stack {
	s.State = cutName(s.State, name)
	list := make([]Frame, 0, min(len(s.Frames), frames))
	for _, f := range s.Frames[:min(len(s.Frames), frames)] {
		list = append(list, f.cut(name))
	}
	s.Frames = list
	if s.Creator != nil {
		creator := s.Creator.cut(name)
		s.Creator = &creator
	}
	return s
}

func (f Frame) cut(name int) Frame {
	f.Func, f.File = cutName(f.Func, name), cutName(f.File, name)
	return f
}

func cutName(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return display.OneLine(s, most)
}

// JSONSize is about how long the stack is as JSON, with its indents.
func (s Stack) JSONSize() int {
	const growth, frame = 400, 80
	n := growth + jsonSize(s.State)
	for _, f := range s.Frames {
		n += frame + jsonSize(f.Func) + jsonSize(f.File)
	}
	if s.Creator != nil {
		n += frame + jsonSize(s.Creator.Func) + jsonSize(s.Creator.File)
	}
	return n
}

// jsonSize returns the length of a string as JSON. The encoder escapes characters of HTML.
func jsonSize(s string) int {
	n := len(s)
	for i := range len(s) {
		switch s[i] {
		case '<', '>', '&':
			n += 5
		case '"', '\\':
			n++
		}
	}
	return n
}

// MaxStackText limits the stacks of one page or JSON text. The rest of MaxOutput is for everything else on the page.
const MaxStackText = display.MaxOutput * 3 / 4

// Fit removes and counts the stacks that changed least if all of them would be too long for one text.
func (d *Diff) Fit() {
	left := MaxStackText
	i, j := 0, len(d.Stacks) // those before i grew and stay, those from j on shrank and stay
	change := func(s StackGrowth) int64 { return max(s.To-s.From, s.From-s.To) }
	for i < j {
		grew := change(d.Stacks[i]) >= change(d.Stacks[j-1])
		next := d.Stacks[i]
		if !grew {
			next = d.Stacks[j-1]
		}
		if left -= next.Stack.JSONSize(); left < 0 {
			break
		}
		if grew {
			i++
		} else {
			j--
		}
	}
	d.Omitted = j - i
	if d.Omitted > 0 {
		d.Stacks = append(d.Stacks[:i:i], d.Stacks[j:]...)
	}
}

// Fit removes and counts the last stacks of each list if all of them would be too long for one text.
func (m *Match) Fit() {
	left := MaxStackText / 2
	n := len(m.Stacks) + len(m.Unexplained)
	for i := range m.Stacks {
		if left -= m.Stacks[i].Stack.JSONSize(); left < 0 {
			m.Stacks = m.Stacks[:i:i]
			break
		}
	}
	left = MaxStackText / 2
	for i := range m.Unexplained {
		if left -= m.Unexplained[i].Stack.JSONSize(); left < 0 {
			m.Unexplained = m.Unexplained[:i:i]
			break
		}
	}
	m.Omitted = n - len(m.Stacks) - len(m.Unexplained)
}
