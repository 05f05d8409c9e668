package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/toold-dev/toold/tool"
)

type read struct{ *family }

func (t *read) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		ID: "read", DisplayName: "Read", Category: category, Version: toolVersion,
		Description: "Reads a file of the workspace. Text comes with line numbers (number, tab, line), up to 2000 lines from " +
			"the start by default; long lines are cut. For a directory it lists the entries, folders with a " +
			"trailing slash. Images (PNG, JPEG, GIF, WebP) and PDFs are returned as media; other binary files are refused. " +
			"A path artifact://…, from a result that was cut, reads the stored output of an earlier call of this conversation.",
		Guidance: "Read a file before you edit or overwrite it. The line numbers are not part of the file: omit them from old_text.",
		Parameters: json.RawMessage(`{
			"type": "object",
			"properties": {
				"path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "File or directory, relative to the workspace, such as src/main.go, or an artifact handle artifact://…"},
				"offset": {"type": "integer", "minimum": 1, "description": "First line (or directory entry) to show, from 1; default 1"},
				"limit": {"type": "integer", "minimum": 1, "maximum": 5000, "description": "How many lines (or directory entries) to show; default 2000"},
				"search": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "Show only lines from offset on that match this regular expression (RE2 syntax)"}
			},
			"required": ["path"],
			"additionalProperties": false
		}`),
		Effects: observing(), Idempotent: true, MaxArguments: readArguments, OutputBudget: outputBudget,
		RequiredIsolation: tool.IsolationNone,
	}
}

// Prompt marks the tool as a [tool.Prompt], a tool that answers promptly: Validate and Describe read no files and never block.
func (*read) Prompt() {}

func (t *read) Validate(args tool.Arguments) error {
	if _, err := t.target(args.String("path")); err != nil {
		return err
	}
	if _, err := searchOf(args); err != nil {
		return err
	}
	if integer(args, "offset", 1) < 1 {
		return invalid("offset", "", "must be at least 1: lines count from 1")
	}
	if n := integer(args, "limit", defaultLines); n < 1 || n > maxLines {
		return invalid("limit", "", "must be from 1 to %d", maxLines)
	}
	return nil
}

func (t *read) Describe(_ context.Context, call *tool.Call) (tool.Description, error) {
	name, err := t.target(call.Arguments.String("path"))
	if err != nil {
		return tool.Description{}, err
	}
	return tool.Description{
		Kind: tool.KindRead, Title: "Read " + short(name),
		Locations: []tool.Location{{Path: exact(name), Line: integer(call.Arguments, "offset", 0)}},
	}, nil
}

func (t *read) Execute(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	r, err := t.run(ctx, call)
	return answer(ctx, r, err)
}

func (t *read) run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	if err := t.Validate(call.Arguments); err != nil {
		return nil, err
	}
	if isHandle(call.Arguments.String("path")) {
		return t.artifact(ctx, call)
	}
	p, err := t.find(ctx, call.Arguments.String("path"))
	if err != nil {
		return nil, err
	}
	file, err := t.workspace.Open(ctx, p.actual)
	if err != nil {
		return nil, explain(p.path, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, explain(p.path, err)
	}
	w := window{integer(call.Arguments, "offset", 1), integer(call.Arguments, "limit", defaultLines)}
	if info.IsDir() {
		return t.list(ctx, p, file, w)
	}
	in := borrowReader(reader{ctx, file})
	defer returnReader(in)
	head, err := in.Peek(sniffLength)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, explain(p.path, err)
	}
	if mime := mediaType(head); mime != "" {
		return t.media(call, p, in, mime)
	}
	if isBinary(head) {
		return nil, binary(p)
	}
	if q, err := searchOf(call.Arguments); q != nil || err != nil {
		return t.matches(ctx, p, in, q, t.limits.ScanSize)
	}
	return t.lines(call, p, in, info, w)
}

func binary(p resolvedPath) error {
	return refuse(reasonBinary, "%s is a binary file. Only text, images (PNG, JPEG, GIF, WebP) and PDFs can be read.", quote(p.path))
}

// window is the requested part of a text or a directory: count lines or entries, starting at number first, counted from 1.
type window struct{ first, count int }

type readData struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	FirstLine  int    `json:"first_line"`
	Lines      int    `json:"lines"`
	TotalLines int    `json:"total_lines,omitempty"` // 0 when the file was not read to its end
	CutLines   int    `json:"cut_lines,omitempty"`   // number of lines of which only the beginning is in the result
	Size       int64  `json:"size"`
	SHA256     string `json:"sha256,omitempty"` // hash of the whole file; empty when it was not read to its end
	Endings    string `json:"line_endings,omitempty"`
	Lossy      bool   `json:"lossy,omitempty"` // The file contains invalid UTF-8, which the result shows as U+FFFD.
	Truncated  bool   `json:"truncated"`
}

func (t *read) lines(call *tool.Call, p resolvedPath, in io.Reader, info fs.FileInfo, w window) (*tool.Result, error) {
	page := page{window: w}
	if err := page.read(in, t.limits.FileSize, t.limits.ScanSize); err != nil {
		if errors.Is(err, errNUL) {
			return nil, binary(p)
		}
		return nil, explain(p.path, err)
	}
	if page.shown == 0 && w.first > 1 {
		if !page.atEnd {
			return nil, refuse(reasonTooLarge, "%s is too large to reach line %d: only its first %d bytes are read. Use grep to find the relevant part.", quote(p.path), w.first, t.limits.ScanSize)
		}
		return nil, refuse(reasonBeyondEnd, "%s has %d lines; offset %d is after the last line.", quote(p.path), page.seen, w.first)
	}
	data := readData{
		Path: exact(p.path), Content: page.content.String(), FirstLine: w.first, Lines: page.shown, CutLines: page.cut,
		Size: info.Size(), Endings: page.endings(), Lossy: page.lossy, Truncated: !page.atEnd || w.first > 1 || page.shown < page.seen,
	}
	if page.atEnd {
		data.TotalLines, data.SHA256 = page.seen, hexSum(page.sum)
	}
	return remember(call, success(data, page.message(p, info.Size())), p.actual, data.SHA256), nil
}

func (p *page) message(at resolvedPath, size int64) string {
	if p.seen == 0 && p.atEnd {
		return fmt.Sprintf("%s is empty.", quote(at.path))
	}
	text := p.numbered.String()
	last := p.first + p.shown - 1
	switch {
	case !p.atEnd:
		text += fmt.Sprintf("\n[Lines %d to %d of a file of %d bytes. Use offset %d to continue.]", p.first, last, size, last+1)
	case last < p.seen:
		text += fmt.Sprintf("\n[Lines %d to %d of %d. Use offset %d to continue.]", p.first, last, p.seen, last+1)
	case p.first > 1:
		text += fmt.Sprintf("\n[Lines %d to %d of %d: the end of the file.]", p.first, last, p.seen)
	}
	if p.cut > 0 {
		text += fmt.Sprintf("\n[%d long lines are cut after %d characters; use grep to search the rest.]", p.cut, maxLineLength)
	}
	if p.lossy {
		text += "\n[The file contains bytes that are not UTF-8; they are shown as \ufffd.]"
	}
	if p.endings() == "mixed" {
		text += "\n[The file mixes CRLF and LF line endings.]"
	}
	return text
}

// mediaName returns the name for an artifact or a content.
func mediaName(p resolvedPath) string { return exact(path.Base(p.path)) }
