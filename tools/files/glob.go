package files

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/tool"
)

const (
	globLimit    = 100
	globMost     = 1000
	searchBudget = 64 << 10 // maximum size in bytes of the output of glob and grep, encoded as JSON
)

type glob struct{ *family }

func (t *glob) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		ID: "glob", DisplayName: "Glob", Category: category, Version: toolVersion,
		Description: "Finds files of the workspace by name: * and ? within a name, ** for folders, [a-z], {a,b}. The newest file " +
			"comes first. Directories and .git are not listed, symbolic links to directories are not followed.",
		Guidance: "A pattern without **/ searches one folder only: **/*.go finds Go files everywhere. Use grep to search by content.",
		Parameters: json.RawMessage(`{
			"type": "object",
			"properties": {
				"pattern": {"type": "string", "minLength": 1, "maxLength": 1024, "description": "Glob, such as src/**/*.ts or **/*_test.go"},
				"path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "Directory where the pattern starts, relative to the workspace; default: the workspace"},
				"limit": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "How many files to show; default 100"}
			},
			"required": ["pattern"],
			"additionalProperties": false
		}`),
		Effects: observing(), Idempotent: true, MaxArguments: readArguments, OutputBudget: outputBudget,
		RequiredIsolation: tool.IsolationNone,
	}
}

// Prompt marks the tool as a [tool.Prompt], a tool that answers promptly: Validate and Describe read no files and never block, so the
// engine calls them without a time limit.
func (*glob) Prompt() {}

func (t *glob) Validate(args tool.Arguments) error {
	if err := checkPattern("pattern", args.String("pattern")); err != nil {
		return err
	}
	if n := integer(args, "limit", globLimit); n < 1 || n > globMost {
		return invalid("limit", "", "must be from 1 to %d", globMost)
	}
	_, _, err := t.start(args)
	return err
}

// start returns the folder where the walk starts, and the rest of the pattern.
func (t *glob) start(args tool.Arguments) (dir, pattern string, err error) {
	base, err := t.locate("path", text(args, "path", "."))
	if err != nil {
		return "", "", err
	}
	pattern = args.String("pattern")
	dir, pattern = literalPrefix(pattern)
	if strings.HasPrefix(args.String("pattern"), "/") {
		base, dir = ".", "/"+dir
	}
	if slices.Contains(strings.Split(pattern, "/"), "..") {
		return "", "", invalid("pattern", "", "has .. after a wildcard, which never matches")
	}
	if !path.IsAbs(dir) {
		dir = base + "/" + dir // locate has cleaned base, so base contains no "..".
	}
	dir, err = t.locate("pattern", dir)
	return dir, pattern, err
}

func (t *glob) Describe(_ context.Context, call *tool.Call) (tool.Description, error) {
	base, err := t.locate("path", text(call.Arguments, "path", "."))
	if err != nil {
		return tool.Description{}, err
	}
	return tool.Description{
		Kind: tool.KindSearch, Title: "Find " + short(call.Arguments.String("pattern")) + " in " + short(base),
		Locations: []tool.Location{{Path: exact(base)}},
	}, nil
}

func (t *glob) Execute(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	r, err := t.run(ctx, call)
	return answer(ctx, r, err)
}

type globData struct {
	Files     []globFile `json:"files"`
	Total     int        `json:"total"`
	Truncated bool       `json:"truncated"`
	Cut       string     `json:"cut,omitempty"`             // says what is missing from the result, and why
	Closed    int        `json:"unreadable_dirs,omitempty"` // number of folders that could not be read
}

type globFile struct {
	Path     string    `json:"path"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	shown    string
}

func (t *glob) run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	if err := t.Validate(call.Arguments); err != nil {
		return nil, err
	}
	base, err := t.locate("path", text(call.Arguments, "path", "."))
	if err != nil {
		return nil, err
	}
	if _, err := t.folder(ctx, base); err != nil {
		return nil, err
	}
	dir, pattern, err := t.start(call.Arguments)
	if err != nil {
		return nil, err
	}
	found := newest{most: integer(call.Arguments, "limit", globLimit)}
	p, err := t.folder(ctx, dir)
	var refusal *tool.Error
	if errors.As(err, &refusal) && (refusal.Reason == reasonNotFound || refusal.Reason == reasonNotDirectory) {
		return t.result(&found, &walk{}, call), nil // The folder in the pattern does not exist.
	}
	if err != nil {
		return nil, err
	}
	w := t.newWalk(false, func(shown, actual string, e fs.DirEntry) error {
		if isTemp(e.Name()) || !matches(pattern, under(p.path, shown), false) {
			return nil
		}
		if info := t.fileInfo(ctx, actual, e); info != nil {
			found.add(globFile{exact(shown), info.Size(), info.ModTime().UTC(), shown})
		}
		return nil
	})
	if err := w.run(ctx, p); err != nil {
		return nil, err
	}
	return t.result(&found, w, call), nil
}

// folder resolves a clean path. It returns an error when the path is not a directory.
func (f *family) folder(ctx context.Context, name string) (resolvedPath, error) {
	p, err := f.follow(ctx, name)
	if err != nil {
		return resolvedPath{}, err
	}
	dir, err := f.workspace.Open(ctx, p.actual)
	if err != nil {
		return resolvedPath{}, explain(p.path, err)
	}
	defer dir.Close()
	info, err := dir.Stat()
	if err != nil {
		return resolvedPath{}, explain(p.path, err)
	}
	if !info.IsDir() {
		return resolvedPath{}, refuse(reasonNotDirectory, "%s is a file, not a directory.", quote(p.path))
	}
	return p, nil
}

// fileInfo returns the info of an entry that is a regular file, or a link to a regular file inside the workspace. It returns nil for all
// other entries.
func (t *glob) fileInfo(ctx context.Context, actual string, e fs.DirEntry) fs.FileInfo {
	if e.Type()&fs.ModeSymlink != 0 {
		f, err := t.workspace.Open(ctx, actual)
		if err != nil {
			return nil
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && !info.IsDir() {
			return info
		}
		return nil
	}
	info, err := e.Info()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return info
}

// under returns name relative to dir. name must be below dir.
func under(dir, name string) string {
	if dir == "." {
		return name
	}
	return strings.TrimPrefix(name, dir+"/")
}

// newest keeps the most recently changed files. It drops older ones from time to time, so its memory stays bounded.
type newest struct {
	most  int
	files []globFile
	total int
}

func (n *newest) add(f globFile) {
	n.total++
	n.files = append(n.files, f)
	if len(n.files) >= 4*n.most+1000 {
		n.cut()
	}
}

func (n *newest) cut() {
	slices.SortFunc(n.files, func(a, b globFile) int {
		return cmp.Or(b.Modified.Compare(a.Modified), cmp.Compare(a.shown, b.shown))
	})
	n.files = n.files[:min(n.most, len(n.files))]
}

func (t *glob) result(found *newest, w *walk, call *tool.Call) *tool.Result {
	found.cut()
	data := globData{Files: []globFile{}, Total: found.total, Cut: w.cut, Closed: w.closed}
	var b strings.Builder
	budget := searchBudget
	for _, f := range found.files {
		if budget -= encodedLength(f.Path); budget < 0 {
			break
		}
		data.Files = append(data.Files, f)
		b.WriteString(quote(f.shown) + "\n")
	}
	data.Truncated = w.cut != "" || len(data.Files) < found.total
	switch {
	case found.total == 0 && !strings.Contains(call.Arguments.String("pattern"), "/") && w.cut == "":
		b.WriteString("No file matches. The pattern searches one folder only; put **/ before it to search all folders below.")
	case found.total == 0:
		b.WriteString("No file matches.")
	case len(data.Files) < found.total:
		fmt.Fprintf(&b, "[The newest %d of %d files; narrow the pattern or raise limit (%d).]", len(data.Files), found.total, found.most)
	}
	if w.cut != "" {
		b.WriteString("\n[The search is incomplete: " + w.cut + ".]")
	}
	return success(data, strings.TrimSuffix(b.String(), "\n"))
}
