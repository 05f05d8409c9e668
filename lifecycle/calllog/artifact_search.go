package calllog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/toold-dev/toold/call"
)

// The bounds of one search. A client that searches a long artifact starts each further search at the offset where the previous one ended.
const (
	searchPattern = 1 << 10 // maximum length of a pattern in bytes
	searchSteps   = 1000    // maximum number of instructions of a compiled pattern; matching executes at most this many for each byte of a line
	searchMost    = 1000    // maximum number of returned matches
	searchUsual   = 100
	searchTime    = 5 * time.Second
	searchLine    = 64 << 10 // bytes; a longer line is searched in pieces of this size
	searchText    = 1000     // maximum number of bytes that are returned of each line
	searchBytes   = 256 << 10
)

// Search returns the lines that match a pattern. It takes at most about 5 s and returns at most about 256 KiB of text.
func (a *Artifact) Search(ctx context.Context, q call.Search) (call.Found, error) {
	re, err := compileSearch(&q)
	if err != nil {
		return call.Found{}, err
	}
	if q.After < 0 || q.After > a.size {
		return call.Found{}, call.Refuse(call.OutOfRange, "OFFSET_OUT_OF_RANGE", "offset %d is beyond the end; there are %d bytes", q.After, a.size)
	}
	// Count the lines before the offset, so that a match has the same line number in every search.
	before, err := a.linesBefore(ctx, q.After)
	if err != nil {
		return call.Found{}, err
	}
	s := searcher{a: a, re: re, limit: min(cmp.Or(q.Limit, searchUsual), searchMost), until: time.Now().Add(searchTime), line: before + 1, at: q.After}
	if err := s.run(ctx); err != nil {
		return call.Found{}, err
	}
	s.found.Size, s.found.Next = a.size, s.at
	s.found.EOF = a.ended && s.at == a.size
	return s.found, nil
}

func compileSearch(q *call.Search) (*regexp.Regexp, error) {
	switch {
	case q.Pattern == "":
		return nil, call.InvalidField("search.pattern", "is required")
	case len(q.Pattern) > searchPattern:
		return nil, call.InvalidField("search.pattern", "has %d bytes; at most %d are accepted", len(q.Pattern), searchPattern)
	case q.Limit < 0:
		return nil, call.InvalidField("search.limit", "is %d; 0 is %d", q.Limit, searchUsual)
	}
	text := q.Pattern
	if !q.Regexp {
		text = regexp.QuoteMeta(text)
	}
	if q.IgnoreCase {
		text = "(?i)" + text
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, call.InvalidField("search.pattern", "is not a regular expression in RE2 syntax: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	if n, err := steps(text); err != nil || n > searchSteps && q.Regexp {
		return nil, call.InvalidField("search.pattern", "is too complex: it has %d instructions, at most %d are accepted; a repeated part counts once for each repetition", n, searchSteps)
	}
	return re, nil
}

// steps returns the number of instructions of a compiled regular expression.
func steps(text string) (int, error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return 0, err
	}
	return len(program.Inst), nil
}

// linesBefore returns the number of line ends before an offset.
func (a *Artifact) linesBefore(ctx context.Context, offset int64) (int64, error) {
	part := *a
	part.size = offset
	_, n, err := part.line(ctx, 0, offset+1)
	return n, err
}

// A searcher searches an artifact from its current offset, the field at.
type searcher struct {
	a     *Artifact
	re    *regexp.Regexp
	limit int
	until time.Time
	line  int64 // number of the line at the offset in the field at
	at    int64
	shown int
	hit   bool // an earlier piece of this line has matched
	found call.Found
}

func (s *searcher) run(ctx context.Context) error {
	buf := make([]byte, min(scanPiece, s.a.size-s.at))
	for s.at < s.a.size && !s.full() && time.Now().Before(s.until) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := s.a.ReadAt(buf, s.at)
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			return err
		}
		last := s.at+int64(n) == s.a.size
		for rest := buf[:n]; len(rest) > 0 && !s.full() && time.Now().Before(s.until); {
			length := bytes.IndexByte(rest, '\n') + 1
			if length == 0 && len(rest) < searchLine && !last {
				break // The next read contains the end of this line.
			}
			rest = rest[s.step(rest, length, last):]
		}
	}
	return nil
}

func (s *searcher) full() bool { return len(s.found.Matches) >= s.limit || s.shown > searchBytes }

// step searches the first line of rest, or the first piece of a long line, and returns how many bytes to skip. length is the length of the
// line, or 0 when rest does not contain the end of the line. last reports that rest is the end of the artifact. Pieces overlap by
// searchPattern bytes, so a match that crosses two pieces is found if it is not longer than that.
func (s *searcher) step(rest []byte, length int, last bool) int {
	whole := length > 0 && length <= searchLine
	look := rest[:min(len(rest), searchLine)]
	if whole {
		look = rest[:length]
	}
	text := bytes.TrimRight(look, "\r\n")
	if m := s.re.FindIndex(text); m != nil && !s.hit {
		s.match(text, m)
		s.hit = true
	}
	took := len(look)
	if !whole && !(last && took == len(rest)) {
		took -= searchPattern
	}
	s.at += int64(took)
	if whole {
		s.line, s.hit = s.line+1, false
	}
	return took
}

func (s *searcher) match(text []byte, m []int) {
	from, to := 0, len(text)
	if to > searchText {
		from = max(0, min(m[0]-searchText/4, len(text)-searchText))
		to = from + searchText
	}
	shown := strings.ToValidUTF8(string(text[from:to]), "\uFFFD")
	s.shown += len(shown)
	s.found.Matches = append(s.found.Matches, call.Match{Line: s.line, Offset: s.at + int64(m[0]), Text: shown, Cut: to-from < len(text)})
}
