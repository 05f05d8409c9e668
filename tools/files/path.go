package files

import (
	"context"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
)

// resolvedPath is a path from the arguments of a call, after symbolic links were followed.
type resolvedPath struct {
	path   string // clean path relative to the workspace, with the links that the arguments contain
	actual string // the same path after all symbolic links were followed
}

// locate returns the clean relative path of an argument. It does not access files.
func (f *family) locate(field, arg string) (string, error) {
	name := arg
	switch {
	case name == "":
		return "", invalid(field, "", "is empty; give a path inside the workspace, such as src/main.go")
	case strings.ContainsRune(name, 0):
		return "", invalid(field, "", "contains a NUL byte, which file names cannot contain")
	}
	if raw, err := strconv.Unquote(name); err == nil && quote(raw) == name && name[0] == '"' {
		name = raw
	}
	if path.IsAbs(name) {
		clean := path.Clean(name)
		under, ok := strings.CutPrefix(clean, strings.TrimSuffix(f.root, "/")+"/")
		switch {
		case f.root != "" && clean == f.root:
			name = "."
		case f.root != "" && ok:
			name = under
		default:
			return "", outside(field, arg)
		}
	}
	name = path.Clean(name)
	if name == ".." || strings.HasPrefix(name, "../") {
		return "", outside(field, arg)
	}
	return name, nil
}

func outside(field, arg string) *tool.Error {
	return invalid(field, reasonOutside, "%s is outside the workspace; give a path inside it, such as src/main.go", quote(arg))
}

// find returns the path of an argument: locate cleans its path, and follow follows the symbolic links.
func (f *family) find(ctx context.Context, arg string) (resolvedPath, error) {
	name, err := f.locate("path", arg)
	if err != nil {
		return resolvedPath{}, err
	}
	return f.follow(ctx, name)
}

// follow follows the symbolic links in a clean path and returns the resolved path.
func (f *family) follow(ctx context.Context, name string) (resolvedPath, error) {
	actual, err := f.workspace.Resolve(ctx, name)
	if err != nil {
		return resolvedPath{}, explain(name, err)
	}
	return resolvedPath{name, actual}, nil
}

// quote returns a name for messages. A name that people could misread becomes a Go string literal: a name with line breaks, escapes,
// bidirectional controls or invalid UTF-8. locate accepts such literals, so a call can also use a name that JSON cannot contain.
func quote(name string) string {
	if strings.HasPrefix(name, `"`) || !utf8.ValidString(name) {
		return strconv.Quote(name)
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return strconv.Quote(name)
		}
	}
	return name
}

// exact returns a name for programs. It quotes the name only when JSON cannot contain it or locate would not accept it.
func exact(name string) string {
	if strings.HasPrefix(name, `"`) || !utf8.ValidString(name) {
		return strconv.Quote(name)
	}
	return name
}

// short returns a name for titles: quoted and shortened.
func short(name string) string {
	const most = 160
	q := quote(name)
	if utf8.RuneCountInString(q) <= most {
		return q
	}
	runes := []rune(q)
	return string(runes[:most/2]) + "…" + string(runes[len(runes)-most/2:])
}
