package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
)

const (
	blockSize   = 128 << 10 // size of a block in bytes; of a longer line, only this many bytes are searched
	shownLength = 500       // maximum number of characters of a line in the output of grep
	shownBefore = 100       // number of characters shown before the match when a line is longer than shownLength
)

// search collects the matches of grep in all files.
type search struct {
	query  *query
	most   int64 // maximum number of bytes of one file that are searched
	until  time.Time
	block  blocks
	budget int // number of bytes that may still be added to the output

	lines   []grepLine
	files   []grepFile
	shown   int // number of matching lines in the output
	total   int // number of all matching lines
	matched int // number of files with matches
	seen    int // number of text files that were searched
	closed  bool

	binary, unreadable, cutLines, cutFiles int
}

type grepLine struct {
	Path    string `json:"path"`
	Line    int    `json:"line"`
	Text    string `json:"text"`
	Context bool   `json:"context,omitempty"`
	shown   string // path for messages
}

type grepFile struct {
	Path  string `json:"path"`
	Count int    `json:"count"`
	shown string
}

type grepData struct {
	Lines         []grepLine `json:"lines,omitempty"`
	Files         []grepFile `json:"files,omitempty"`
	MatchingLines int        `json:"matching_lines"`
	MatchingFiles int        `json:"matching_files"`
	SearchedFiles int        `json:"searched_files"`
	Truncated     bool       `json:"truncated"`
	Cut           string     `json:"cut,omitempty"` // says what is missing from the result, and why
	Binary        int        `json:"binary_files,omitempty"`
	Unreadable    int        `json:"unreadable,omitempty"` // number of files and folders that could not be read
}

func newSearch(q *query, l Limits) *search {
	return &search{query: q, most: l.ScanSize, until: time.Now().Add(l.SearchTime), budget: searchBudget, block: blocks{buf: make([]byte, blockSize)}}
}

func (s *search) progress() string {
	return fmt.Sprintf("%d files searched, %d matching lines", s.seen, s.total)
}

func (s *search) file(ctx context.Context, name string, in io.Reader) error {
	s.seen++
	s.block.reset(reader{ctx, io.LimitReader(in, s.most)})
	f := fileSearch{search: s, path: exact(name), shownPath: quote(name)}
	for first := true; ; first = false {
		block, err := s.block.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if isBinary(block) {
			s.binary++
			s.seen--
			break
		}
		if first {
			block = bytes.TrimPrefix(block, []byte("\ufeff"))
		}
		f.block(block)
		if errors.Is(err, io.EOF) {
			break
		}
		if s.late() {
			break
		}
	}
	s.cutLines += s.block.cut
	if s.block.read >= s.most {
		s.cutFiles++
	}
	f.done()
	return nil
}

// fileSearch is the state of the search in one file.
type fileSearch struct {
	*search
	path      string     // path in the data, for programs
	shownPath string     // path in messages, for the model
	line      int        // number of lines before this block
	last      []grepLine // the last lines, as context for a later match
	after     int        // number of context lines that must still be shown after a match
	count     int
}

// block searches a block of whole lines. It matches the expression against the whole block, which is much faster than matching each line.
// Such a match may cross a line end, so block then matches the expression against the found line alone. No line is missed: when a line
// matches alone, the whole block has a match in this line or before it.
func (f *fileSearch) block(b []byte) {
	if bytes.IndexByte(b, '\r') >= 0 {
		b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	}
	const patience = 16
	misses := 0
	if f.query.anchored {
		misses = patience
	}
	for pos := 0; pos < len(b) && !f.late(); {
		start := pos
		if misses < patience {
			m := f.query.re.FindIndex(b[pos:])
			if m == nil {
				f.skip(b[pos:])
				return
			}
			start += bytes.LastIndexByte(b[pos:pos+m[0]], '\n') + 1
		}
		f.skip(b[pos:start])
		if start == len(b) {
			return // The expression matched the empty text after the last line end, which is not a line.
		}
		pos = lineEnd(b, start)
		line := bytes.TrimSuffix(b[start:pos], []byte{'\n'})
		m := f.query.re.FindIndex(line)
		if m == nil {
			misses++ // The match crossed a line end, so the line alone does not match. After several such misses, block matches each line alone, because otherwise the search could take very long.
			f.add(line, 0, false)
			continue
		}
		f.add(line, m[0], true)
	}
}

// late reports whether the time of the search is over.
func (s *search) late() bool {
	s.closed = s.closed || time.Now().After(s.until)
	return s.closed
}

func lineEnd(b []byte, pos int) int {
	if i := bytes.IndexByte(b[pos:], '\n'); i >= 0 {
		return pos + i + 1
	}
	return len(b)
}

// skip counts the lines in b, which do not match, and keeps the last ones as context.
func (f *fileSearch) skip(b []byte) {
	if len(b) == 0 {
		return
	}
	n := countLines(b)
	for ; f.after > 0 && len(b) > 0; n-- {
		end := lineEnd(b, 0)
		f.add(bytes.TrimSuffix(b[:end], []byte{'\n'}), 0, false)
		b = b[end:]
	}
	if keep := f.query.before; keep > 0 && len(b) > 0 {
		start := lineStart(bytes.TrimSuffix(b, []byte{'\n'}), len(bytes.TrimSuffix(b, []byte{'\n'})), keep-1)
		f.line += n - countLines(b[start:])
		for line := range bytes.Lines(b[start:]) {
			f.add(bytes.TrimSuffix(line, []byte{'\n'}), 0, false)
		}
		return
	}
	f.line += n
}

// add adds the next line to the output, as a match or as context.
func (f *fileSearch) add(line []byte, at int, match bool) {
	f.line++
	match = match && f.line >= f.query.from
	if match {
		f.count++
		f.total++
	}
	full := f.shown >= f.query.limit || f.budget <= 0
	l := grepLine{Path: f.path, Line: f.line, Context: !match, shown: f.shownPath}
	switch {
	case f.query.output != "content", match && full:
		f.after = 0
	case match:
		for _, before := range f.last {
			f.show(before)
		}
		f.last = f.last[:0]
		l.Text = excerpt(line, at)
		f.show(l)
		f.shown++
		f.after = f.query.after
	case f.after > 0:
		f.after--
		l.Text = excerpt(line, 0)
		f.show(l)
	case f.query.before > 0 && !full:
		l.Text = excerpt(line, 0)
		if len(f.last) == f.query.before {
			f.last = append(f.last[:0], f.last[1:]...)
		}
		f.last = append(f.last, l)
	}
}

func (s *search) show(l grepLine) {
	s.budget -= encodedLength(l.Text) + len(l.Path) + 40
	s.lines = append(s.lines, l)
}

func (f *fileSearch) done() {
	if f.count == 0 {
		return
	}
	f.matched++
	if len(f.files) < f.query.limit {
		f.files = append(f.files, grepFile{f.path, f.count, f.shownPath})
	}
}

// excerpt returns a line. Of a long line, it returns the part around offset at.
func excerpt(line []byte, at int) string {
	text := strings.ToValidUTF8(string(line), "\ufffd")
	if utf8.RuneCountInString(text) <= shownLength {
		return text
	}
	start := ""
	if at > shownLength-shownBefore {
		text, start = strings.ToValidUTF8(string(line[at-shownBefore:]), "\ufffd"), "…"
	}
	if cut := firstRunes(text, shownLength); cut != text {
		return start + cut + "…"
	}
	return start + text
}

func (s *search) result(w *walk) *tool.Result {
	data := grepData{
		MatchingLines: s.total, MatchingFiles: s.matched, SearchedFiles: s.seen,
		Binary: s.binary, Unreadable: s.unreadable + w.closed,
	}
	var b strings.Builder
	var cuts []string
	if s.query.output == "content" {
		data.Lines = s.lines
		s.writeLines(&b)
		if s.shown < s.total {
			cuts = append(cuts, fmt.Sprintf("%d of %d matching lines are shown; narrow pattern, path or glob, or raise limit (%d)", s.shown, s.total, s.query.limit))
		}
	} else {
		data.Files = s.writeFiles(&b)
		if len(data.Files) < s.matched {
			cuts = append(cuts, fmt.Sprintf("%d of %d files are shown; narrow pattern, path or glob, or raise limit (%d)", len(data.Files), s.matched, s.query.limit))
		}
	}
	if w.cut == "" && s.closed {
		cuts = append(cuts, "the search reached its time limit")
	}
	if w.cut != "" {
		cuts = append(cuts, w.cut)
	}
	if s.cutFiles > 0 {
		cuts = append(cuts, fmt.Sprintf("%d files are large, and only their first %d bytes were searched", s.cutFiles, s.most))
	}
	if s.cutLines > 0 {
		cuts = append(cuts, fmt.Sprintf("%d lines are long, and only their first %d bytes were searched", s.cutLines, blockSize))
	}
	data.Cut, data.Truncated = strings.Join(cuts, "; "), len(cuts) > 0
	if s.total == 0 {
		fmt.Fprintf(&b, "No line matches in %d files searched.", s.seen)
	} else {
		fmt.Fprintf(&b, "[%d matching lines in %d files.]", s.total, s.matched)
	}
	for _, c := range cuts {
		b.WriteString("\n[" + c + ".]")
	}
	return success(data, b.String())
}

func (s *search) writeLines(b *strings.Builder) {
	for i, l := range s.lines {
		if i > 0 && (s.query.before > 0 || s.query.after > 0) && (l.Path != s.lines[i-1].Path || l.Line != s.lines[i-1].Line+1) {
			b.WriteString("--\n")
		}
		mark := ":"
		if l.Context {
			mark = "-"
		}
		fmt.Fprintf(b, "%s%s%d%s%s\n", l.shown, mark, l.Line, mark, l.Text)
	}
}

func (s *search) writeFiles(b *strings.Builder) []grepFile {
	shown := []grepFile{}
	for _, f := range s.files {
		if s.budget -= len(f.Path) + 30; s.budget < 0 {
			break
		}
		shown = append(shown, f)
		if b.WriteString(f.shown); s.query.output == "count" {
			fmt.Fprintf(b, ":%d", f.Count)
		}
		b.WriteString("\n")
	}
	return shown
}
