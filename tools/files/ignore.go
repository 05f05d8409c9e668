package files

import (
	"bufio"
	"context"
	"io"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

const (
	ignoreFile = ".gitignore"
	ignoreSize = 256 << 10 // maximum number of bytes that are read of one .gitignore
)

// ignores contains the rules of one .gitignore. parent contains the rules of the nearest folder above.
type ignores struct {
	parent *ignores
	dir    string // folder of the file, relative to the workspace
	rules  []ignoreRule
}

type ignoreRule struct {
	pattern  string
	literal  bool // The pattern has no wildcards, so it is compared as text.
	byName   bool // The pattern contains no slash, so it matches at any depth.
	onlyDirs bool
	negated  bool
}

// ignored reports whether the rules ignore a path. The last matching rule of the nearest file applies. Whether a parent folder is ignored
// is not checked here, because a walk does not enter ignored folders.
func (g *ignores) ignored(name string, isDir bool) bool {
	base := path.Base(name)
	for ; g != nil; g = g.parent {
		under := name
		if g.dir != "." {
			under = strings.TrimPrefix(name, g.dir+"/")
		}
		for i := len(g.rules) - 1; i >= 0; i-- {
			r := &g.rules[i]
			if r.onlyDirs && !isDir {
				continue
			}
			subject := under
			if r.byName {
				subject = base
			}
			if r.literal && r.pattern == subject || !r.literal && matches(r.pattern, subject, false) {
				return !r.negated
			}
		}
	}
	return false
}

// below returns the rules for the content of dir: these rules and those of dir's .gitignore. A .gitignore that cannot be read counts as
// empty.
func (g *ignores) below(ctx context.Context, w Workspace, dir string) *ignores {
	f, err := w.Open(ctx, path.Join(dir, ignoreFile))
	if err != nil {
		return g
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return g
	}
	rules := parseIgnores(io.LimitReader(f, ignoreSize))
	if len(rules) == 0 {
		return g
	}
	return &ignores{g, dir, rules}
}

func parseIgnores(r io.Reader) []ignoreRule {
	var rules []ignoreRule
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if rule, ok := parseIgnore(lines.Text()); ok {
			rules = append(rules, rule)
		}
	}
	return rules
}

// parseIgnore parses a line of a .gitignore as gitignore(5) defines. It returns false for a line that contains no valid rule.
func parseIgnore(line string) (ignoreRule, bool) {
	line = strings.TrimPrefix(strings.TrimSuffix(line, "\r"), "\ufeff")
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if line == "" || line[0] == '#' {
		return ignoreRule{}, false
	}
	var r ignoreRule
	if line[0] == '!' {
		r.negated, line = true, line[1:]
	}
	if rest, ok := strings.CutSuffix(line, "/"); ok {
		r.onlyDirs, line = true, rest
	}
	r.byName = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if inside, ok := strings.CutSuffix(line, "/**"); ok {
		line = inside + "/**/*" // matches the content of the folder, but not the folder itself
	}
	r.pattern = strings.NewReplacer(`\\`, `\\`, `\{`, `\{`, `\}`, `\}`, "{", `\{`, "}", `\}`).Replace(line) // Braces are escaped, because they have no special meaning in a .gitignore.
	r.literal = !strings.ContainsAny(line, `*?[\`)
	if r.literal {
		r.pattern = line
	}
	return r, line != "" && doublestar.ValidatePattern(r.pattern)
}
