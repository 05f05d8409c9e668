package redact

// A Stream removes secrets from a text that comes in chunks. Its output does not depend on the chunks. Only one goroutine may use it at a
// time.
type Stream struct {
	scan  scanner
	lines *lines
}

// Stream returns a new Stream.
func (r *Redactor) Stream() *Stream {
	s := &Stream{scan: scanner{r: r}}
	if len(r.patterns) > 0 {
		s.lines = &lines{patterns: r.patterns}
	}
	return s
}

// use makes the stream use the values of r, also for the retained bytes. It keeps the old patterns, because they apply to text in which
// values were already replaced.
func (s *Stream) use(r *Redactor) { s.scan.r = r }

// Next returns the text that can be published after this chunk, or nil. It does not keep the chunk.
func (s *Stream) Next(chunk []byte) []byte {
	out := s.scan.next(chunk, false)
	if s.lines != nil {
		out = s.lines.next(out, false)
	}
	return out
}

// End returns the retained text. The next chunk begins a new text.
func (s *Stream) End() []byte {
	out := s.scan.next(nil, true)
	s.scan = scanner{r: s.scan.r}
	if s.lines != nil {
		out = s.lines.next(out, true)
	}
	return out
}

// A scanner removes values and tokens.
type scanner struct {
	r *Redactor
	// b begins with bytes that are already published. The scanner keeps them to find the text before a credential. The bytes at the index
	// in look and after it are not published yet.
	b    []byte
	look int

	covered int    // number of bytes of b after look that belong to a secret whose mark is already published
	run     *token // the token that may continue with the next byte
	runs    *[256]bool
	end     pemEnd
	length  int // bytes of this token so far
	changed bool
}

// next returns the text that no later byte can change. final reports that no bytes follow.
func (s *scanner) next(chunk []byte, final bool) (out []byte) {
	s.b = append(s.b, chunk...)
	i, from := s.look, s.look // from is the index of the first clean byte that is not in out yet
	covered := s.look + s.covered
	for i < len(s.b) {
		if s.runs != nil && i >= covered {
			covered = s.goOn(i)
		}
		inside := i < covered
		if !inside && s.runs == nil {
			if i = s.skip(i); i == len(s.b) {
				break
			}
		}
		f, more := s.at(i, inside, final)
		if more {
			break
		}
		if f.length > 0 {
			if !inside {
				out = append(append(out, s.b[from:i]...), f.mark...)
				s.changed = true
				s.run, s.runs, s.end, s.length = f.run, f.runs, pemEnd{}, 0
			}
			covered = max(covered, i+f.length)
		}
		i++
		if i <= covered {
			from = i
		}
	}
	if i > from {
		out = append(out, s.b[from:i]...)
	}
	s.covered = max(covered-i, 0)
	s.keep(i)
	return out
}

// skip returns the first index, at i or later, at which a secret could begin.
func (s *scanner) skip(i int) int {
	b := s.b
	for ; i < len(b)-1; i++ {
		if s.r.pairs.has(b[i], b[i+1]) || s.r.tokens && i > 1 && separator[b[i-1]] && followsName(b[:i]) {
			return i
		}
	}
	if i == len(b)-1 && !s.r.hot[b[i]] && !(s.r.tokens && i > 1 && separator[b[i-1]] && followsName(b[:i])) {
		i++
	}
	return i
}

// goOn adds the byte at i to the current token, or ends the token before that byte. A private key ends with the last byte of its END line.
// goOn returns the end of the covered bytes.
func (s *scanner) goOn(i int) int {
	c := s.b[i]
	s.length++
	isKey := s.run != nil && s.run.pem
	switch {
	case !s.runs[c], isKey && s.length > pemLimit:
		s.run, s.runs = nil, nil
		return i
	case isKey && s.end.over(c):
		s.run, s.runs = nil, nil
	}
	return i + 1
}

// keep drops the published bytes, except those that are needed for looking back.
func (s *scanner) keep(i int) {
	drop := max(i-behind, 0)
	s.look = i - drop
	if drop > 0 {
		s.b = append(s.b[:0], s.b[drop:]...)
	}
}

// found describes a secret in the text: its length, its mark, and, for a token, the bytes that may continue the token.
type found struct {
	length int
	mark   string
	run    *token
	runs   *[256]bool
}

// at looks for a secret that begins at i. inside means that i is within a secret that was already found. Then at looks only for values,
// because a value may end later than that secret. more reports that more bytes are needed to decide.
func (s *scanner) at(i int, inside, final bool) (f found, more bool) {
	rest := s.b[i:]
	if !final && s.r.values.begins(rest) {
		return f, true
	}
	f.length, f.mark = s.r.values.match(rest)
	if inside || !s.r.tokens {
		return f, false
	}
	for _, t := range tokensByFirst[rest[0]] {
		if !t.anywhere && i > 0 && wordly[s.b[i-1]] {
			continue
		}
		n, wait := t.match(rest)
		if wait && !final {
			return f, true
		}
		if n > 0 {
			return found{max(n, f.length), mark(t.name), t, t.run}, false
		}
	}
	if i < 2 || !separator[s.b[i-1]] || !followsName(s.b[:i]) {
		return f, false
	}
	for k := range credentials {
		c := &credentials[k]
		if !c.run[rest[0]] || !c.precedes(s.b[:i]) {
			continue
		}
		n := span(rest, c.run, c.least)
		n, wait := enough(n, len(rest), n, c.least)
		if wait && !final {
			return f, true
		}
		if n > 0 {
			return found{max(n, f.length), mark(c.name), nil, c.run}, false
		}
	}
	return f, false
}
