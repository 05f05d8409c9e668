package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// Artifacts gives access to the output and the artifacts of earlier calls.
type Artifacts interface {
	// OpenArtifact opens the artifact or stream with this name of the call with this id. The content is its current state. It returns
	// [fs.ErrNotExist] when the artifact does not exist or the reading call may not see it. Artifacts of other callers and of other threads
	// are never visible.
	OpenArtifact(ctx context.Context, reader *tool.Call, id, name string) (content io.ReaderAt, size int64, err error)
}

func isHandle(path string) bool { return strings.HasPrefix(path, tool.ArtifactScheme) }

// target returns the clean path of an argument, as locate does, or the handle of an artifact unchanged.
func (f *family) target(arg string) (string, error) {
	if !isHandle(arg) {
		return f.locate("path", arg)
	}
	if _, _, err := tool.ParseArtifactHandle(arg); err != nil {
		return "", invalid("path", "", "is not an artifact handle; use artifact://CALL/NAME as a result shows it")
	}
	return arg, nil
}

func (f *family) open(ctx context.Context, call *tool.Call, handle string) (*io.SectionReader, error) {
	id, name, err := tool.ParseArtifactHandle(handle)
	if err != nil {
		return nil, invalid("path", "", "is not an artifact handle; use artifact://CALL/NAME as a result shows it")
	}
	unknown := refuse(reasonNotFound, "There is no artifact %s in this conversation. It was deleted or belongs to another conversation.", quote(handle))
	if f.artifacts == nil {
		return nil, unknown
	}
	content, size, err := f.artifacts.OpenArtifact(ctx, call, id, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, unknown
	}
	if err != nil {
		return nil, explain(handle, err)
	}
	return io.NewSectionReader(content, 0, size), nil
}

// artifact reads a page of an artifact or stream of an earlier call. When the arguments contain a search, it returns the matching lines
// instead.
func (t *read) artifact(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	p := resolvedPath{path: call.Arguments.String("path")}
	content, err := t.open(ctx, call, p.path)
	if err != nil {
		return nil, err
	}
	in := borrowReader(reader{ctx, content})
	defer returnReader(in)
	head, err := in.Peek(sniffLength)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, explain(p.path, err)
	}
	if isBinary(head) {
		return nil, refuse(reasonBinary, "%s is binary; only text can be read.", quote(p.path))
	}
	q, err := searchOf(call.Arguments)
	if err != nil {
		return nil, err
	}
	if q != nil {
		return t.matches(ctx, p, in, q, content.Size()+1)
	}
	page := page{window: window{integer(call.Arguments, "offset", 1), integer(call.Arguments, "limit", defaultLines)}}
	if err := page.read(in, 0, content.Size()); err != nil {
		if errors.Is(err, errNUL) {
			return nil, refuse(reasonBinary, "%s is binary; only text can be read.", quote(p.path))
		}
		return nil, explain(p.path, err)
	}
	if page.shown == 0 && page.first > 1 {
		return nil, refuse(reasonBeyondEnd, "%s has %d lines; offset %d is after the last line.", quote(p.path), page.seen, page.first)
	}
	data := readData{
		Path: p.path, Content: page.content.String(), FirstLine: page.first, Lines: page.shown, CutLines: page.cut,
		Size: content.Size(), Endings: page.endings(), Lossy: page.lossy, Truncated: !page.atEnd || page.first > 1 || page.shown < page.seen,
	}
	if page.atEnd {
		data.TotalLines = page.seen
	}
	return success(data, page.message(p, content.Size())), nil
}

// searchOf returns the search in the arguments of a read call, or nil when they ask for a page.
func searchOf(args tool.Arguments) (*query, error) {
	pattern := args.String("search")
	if pattern == "" {
		return nil, nil //nolint:nilnil // nothing to look for is no error
	}
	q, err := compileQuery("search", pattern, false)
	if err != nil {
		return nil, err
	}
	q.output, q.limit, q.from = "content", min(integer(args, "limit", grepLimit), grepMost), integer(args, "offset", 1)
	return q, nil
}

type matchesData struct {
	Path          string     `json:"path"`
	Lines         []readLine `json:"lines"`
	MatchingLines int        `json:"matching_lines"`
	Truncated     bool       `json:"truncated"`
}

type readLine struct {
	Line int    `json:"line"`
	Text string `json:"text"`
}

// matches returns the matching lines of a text with their numbers.
func (t *read) matches(ctx context.Context, p resolvedPath, in io.Reader, q *query, most int64) (*tool.Result, error) {
	s := newSearch(q, t.limits)
	s.most = most
	if err := s.file(ctx, p.path, in); err != nil {
		return nil, explain(p.path, err)
	}
	if s.binary > 0 {
		return nil, refuse(reasonBinary, "%s is binary; only text can be searched.", quote(p.path))
	}
	data := matchesData{Path: exact(p.path), Lines: []readLine{}, MatchingLines: s.total, Truncated: s.shown < s.total || s.closed || s.cutFiles > 0}
	var b strings.Builder
	for _, l := range s.lines {
		data.Lines = append(data.Lines, readLine{l.Line, l.Text})
		fmt.Fprintf(&b, "%6d\t%s\n", l.Line, l.Text)
	}
	switch {
	case s.total == 0:
		fmt.Fprintf(&b, "No line matches, starting at line %d.", q.from)
	case s.shown < s.total:
		fmt.Fprintf(&b, "[%d of %d matching lines. Use offset %d to see more, or a narrower search.]", s.shown, s.total, s.lines[len(s.lines)-1].Line+1)
	default:
		fmt.Fprintf(&b, "[%d matching lines.]", s.total)
	}
	if s.closed || s.cutFiles > 0 {
		b.WriteString("\n[The search ended before the end of the text.]")
	}
	return success(data, b.String()), nil
}
