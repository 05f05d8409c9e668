package files

import (
	"context"
	"encoding/json"
	"io/fs"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/tool"
)

const (
	grepLimit     = 200
	grepMost      = 2000
	grepContext   = 20
	patternText   = 4096 // maximum size of a regular expression, in bytes
	patternSteps  = 2000 // maximum number of instructions of the compiled expression; a match may execute all of them for each byte
	progressEvery = 2 * time.Second
)

type grep struct{ *family }

func (t *grep) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		ID: "grep", DisplayName: "Grep", Category: category, Version: toolVersion,
		Description: "Searches the text files of the workspace line by line for a regular expression (RE2 syntax, as in Go). " +
			"output selects the form of the result: content (path:line:text, lines of context as path-line-text), files (paths) or count " +
			"(matching lines of each file). Files that .gitignore excludes, .git, binary files and symbolic links are not searched.",
		Guidance: "Prefer grep to reading many files. Escape characters that are meant literally, such as \\( and \\.. There is no lookahead and no match across lines.",
		Parameters: json.RawMessage(`{
			"type": "object",
			"properties": {
				"pattern": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "Regular expression, such as func \\w+Handler"},
				"path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "File or directory to search, relative to the workspace, or an artifact handle artifact://…; default: the whole workspace"},
				"glob": {"type": "string", "minLength": 1, "maxLength": 1024, "description": "Search only files that match, such as *.go or src/**/*.{ts,tsx}; a pattern without a slash is matched against the file name"},
				"context": {"type": "integer", "minimum": 0, "maximum": 20, "description": "Lines to show before and after each match"},
				"before": {"type": "integer", "minimum": 0, "maximum": 20, "description": "Lines to show before each match; overrides context"},
				"after": {"type": "integer", "minimum": 0, "maximum": 20, "description": "Lines to show after each match; overrides context"},
				"ignore_case": {"type": "boolean", "description": "Ignore upper and lower case; default false"},
				"output": {"type": "string", "enum": ["content", "files", "count"], "description": "What to show; default content"},
				"limit": {"type": "integer", "minimum": 1, "maximum": 2000, "description": "How many matching lines (or files) to show; default 200"}
			},
			"required": ["pattern"],
			"additionalProperties": false
		}`),
		Effects: observing(), Idempotent: true, MaxArguments: readArguments, OutputBudget: outputBudget,
		RequiredIsolation: tool.IsolationNone,
	}
}

// query is the request of a grep call.
type query struct {
	re            *regexp.Regexp
	anchored      bool // The expression has \A or \z, so each line must be matched alone.
	glob          string
	before, after int
	output        string
	limit         int
	from          int // number of the first line whose matches are reported
}

func queryOf(args tool.Arguments) (*query, error) {
	q, err := compileQuery("pattern", args.String("pattern"), flag(args, "ignore_case"))
	if err != nil {
		return nil, err
	}
	around := integer(args, "context", 0)
	q.glob, q.output, q.limit = args.String("glob"), text(args, "output", "content"), integer(args, "limit", grepLimit)
	q.before, q.after = integer(args, "before", around), integer(args, "after", around)
	if q.glob != "" {
		if err := checkPattern("glob", q.glob); err != nil {
			return nil, err
		}
		q.glob = strings.TrimPrefix(q.glob, "./")
	}
	switch {
	case !slices.Contains([]string{"content", "files", "count"}, q.output):
		return nil, invalid("output", "", "must be content, files or count")
	case min(q.before, q.after) < 0 || max(q.before, q.after) > grepContext:
		return nil, invalid("context", "", "must be from 0 to %d lines", grepContext)
	case q.limit < 1 || q.limit > grepMost:
		return nil, invalid("limit", "", "must be from 1 to %d", grepMost)
	}
	return q, nil
}

func compileQuery(field, pattern string, ignoreCase bool) (*query, error) {
	if pattern == "" || len(pattern) > patternText {
		return nil, invalid(field, "", "must have 1 to %d bytes", patternText)
	}
	flags := "(?m)"
	if ignoreCase {
		flags = "(?mi)"
	}
	re, err := regexp.Compile(flags + pattern)
	if err != nil {
		return nil, invalid(field, "", "is not a regular expression in RE2 syntax: %s", strings.Replace(cleanRegexpError(err), flags, "", 1))
	}
	tree, err := syntax.Parse(flags+pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if n := len(program.Inst); n > patternSteps {
		return nil, invalid(field, "", "is too complex: it has %d instructions, at most %d are accepted; a repeated part counts once for each repetition", n, patternSteps)
	}
	return &query{re: re, anchored: hasTextAnchor(tree)}, nil
}

// wants reports whether the glob argument selects a file. The names are the paths of the file, relative to the start of the search and to
// the workspace.
func (q *query) wants(names ...string) bool {
	return q.glob == "" || slices.ContainsFunc(names, func(name string) bool { return matches(q.glob, name, true) })
}

func cleanRegexpError(err error) string {
	return strings.TrimPrefix(err.Error(), "error parsing regexp: ")
}

// hasTextAnchor reports whether the expression contains \A or \z, which match only at the beginning and the end of the whole text.
func hasTextAnchor(re *syntax.Regexp) bool {
	return re.Op == syntax.OpBeginText || re.Op == syntax.OpEndText || slices.ContainsFunc(re.Sub, hasTextAnchor)
}

// Prompt marks the tool as a [tool.Prompt], a tool that answers promptly: Validate and Describe read no files and never block.
func (*grep) Prompt() {}

func (t *grep) Validate(args tool.Arguments) error {
	if _, err := t.target(text(args, "path", ".")); err != nil {
		return err
	}
	_, err := queryOf(args)
	return err
}

func (t *grep) Describe(_ context.Context, call *tool.Call) (tool.Description, error) {
	base, err := t.target(text(call.Arguments, "path", "."))
	if err != nil {
		return tool.Description{}, err
	}
	title := "Search " + short(base) + " for " + short(call.Arguments.String("pattern"))
	return tool.Description{Kind: tool.KindSearch, Title: title, Locations: []tool.Location{{Path: exact(base)}}}, nil
}

func (t *grep) Execute(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	r, err := t.run(ctx, call)
	return answer(ctx, r, err)
}

func (t *grep) run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	if handle := call.Arguments.String("path"); isHandle(handle) {
		return t.artifact(ctx, call, handle)
	}
	p, err := t.find(ctx, text(call.Arguments, "path", "."))
	if err != nil {
		return nil, err
	}
	q, err := queryOf(call.Arguments)
	if err != nil {
		return nil, err
	}
	s := newSearch(q, t.limits)
	if _, err := t.folder(ctx, p.path); err == nil {
		return t.tree(ctx, call, p, s)
	} else if tool.AsError(err).Reason != reasonNotDirectory {
		return nil, err
	}
	file, err := t.workspace.Open(ctx, p.actual) // The arguments name this file, so it is searched even if .gitignore or the glob excludes it.
	if err != nil {
		return nil, explain(p.path, err)
	}
	defer file.Close()
	if err := s.file(ctx, p.path, file); err != nil {
		return nil, explain(p.path, err)
	}
	if s.binary > 0 {
		return nil, refuse(reasonBinary, "%s is a binary file, which grep does not search.", quote(p.path))
	}
	return s.result(&walk{}), nil
}

func (t *grep) artifact(ctx context.Context, call *tool.Call, handle string) (*tool.Result, error) {
	q, err := queryOf(call.Arguments)
	if err != nil {
		return nil, err
	}
	content, err := t.open(ctx, call, handle)
	if err != nil {
		return nil, err
	}
	s := newSearch(q, t.limits)
	s.most = content.Size() + 1
	if err := s.file(ctx, handle, content); err != nil {
		return nil, explain(handle, err)
	}
	if s.binary > 0 {
		return nil, refuse(reasonBinary, "%s is binary, which grep does not search.", quote(handle))
	}
	return s.result(&walk{}), nil
}

func (t *grep) tree(ctx context.Context, call *tool.Call, p resolvedPath, s *search) (*tool.Result, error) {
	reported := time.Now()
	w := t.newWalk(true, func(shown, actual string, e fs.DirEntry) error {
		if !e.Type().IsRegular() || isTemp(e.Name()) || !s.query.wants(under(p.path, shown), shown) {
			return nil
		}
		if time.Since(reported) > progressEvery {
			reported = time.Now()
			if err := call.Progress(tool.ProgressRunning, 0, s.progress()); err != nil {
				return err
			}
		}
		file, err := t.workspace.Open(ctx, actual)
		if err == nil {
			err = s.file(ctx, shown, file)
			file.Close()
		}
		if err != nil {
			s.unreadable++
			return ctx.Err()
		}
		return nil
	})
	s.until = w.until
	if err := w.run(ctx, p); err != nil {
		return nil, err
	}
	return s.result(w), nil
}
