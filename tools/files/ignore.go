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
	ignoreSize = 256 << 10 // bytes read of one .gitignore
)

// ignores holds the rules of one .gitignore. parent has the rules of the folders above.
type ignores struct {
	parent *ignores
	dir    string // folder of the file, relative to the workspace
	rules  []ignoreRule
}

type ignoreRule struct {
	pattern  string
	literal  bool // compare as text, not as a pattern
	byName   bool // The pattern has no slash, so it matches at any depth.
	onlyDirs bool
	negated  bool
}

// ignored reports whether git ignores this path. The last matching rule of the nearest file decides. Ignored parent folders are not checked
// here, because a walk does not enter them.
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

// below returns the rules for the content of dir. A file that cannot be read has no rules.
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

// parseIgnore parses a line as gitignore(5) defines. It returns false for a line that git does not accept.
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
		line = inside + "/**/*" // the content of the folder, not the folder itself
	}
	r.pattern = strings.NewReplacer(`\\`, `\\`, `\{`, `\{`, `\}`, `\}`, "{", `\{`, "}", `\}`).Replace(line) // git does not support braces.
	r.literal = !strings.ContainsAny(line, `*?[\`)
	if r.literal {
		r.pattern = line
	}
	return r, line != "" && doublestar.ValidatePattern(r.pattern)
}
