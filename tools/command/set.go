package command

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// A Set holds the tools of a directory of manifests.
type Set struct {
	tools []*scripted
}

// Load reads all manifests of a directory: the files that end in .yaml or .yml and do not begin with a dot. An empty dir means no
// manifests. Load starts no program. When a manifest is wrong, Load fails. The error joins a [*Problem] for each error in any manifest.
// When a tool has not changed since the earlier set, the new set contains the same Go object for it, so the tool keeps its persistent
// programs.
func Load(cfg Config, dir string, earlier *Set) (*Set, error) {
	if dir == "" {
		return &Set{}, nil
	}
	for _, workspace := range append(slices.Collect(maps.Values(cfg.Workspaces)), cfg.Workspace) {
		if cfg.Policy == nil || !filepath.IsAbs(workspace) {
			return nil, errors.New("command: a Policy and an absolute workspace are required")
		}
	}
	files, err := manifests(dir)
	if err != nil {
		return nil, err
	}
	s := &Set{}
	var problems []error
	names := map[string]string{}
	for _, path := range files {
		t, err := read(&cfg, path)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		for _, name := range append([]string{t.m.ID}, t.m.Aliases...) {
			if other := names[name]; other != "" {
				problems = append(problems, t.at.problem("id", "%q is already a tool of %s", name, other))
			}
			names[name] = path
		}
		s.tools = append(s.tools, earlier.same(t))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return s, nil
}

// LoadFile reads one manifest. It applies the same rules as [Load].
func LoadFile(cfg Config, path string) (*Set, error) {
	t, err := read(&cfg, path)
	if err != nil {
		return nil, err
	}
	return &Set{tools: []*scripted{t}}, nil
}

// manifests returns the paths of the manifests in a directory.
func manifests(dir string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("directory of manifests: %w", err)
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") && !strings.HasPrefix(e.Name(), ".") {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}

func (s *Set) same(t *scripted) *scripted {
	if s == nil {
		return t
	}
	for _, other := range s.tools {
		if other.key == t.key {
			return other
		}
	}
	return t
}

// Tools returns the tools of the set.
func (s *Set) Tools() []tool.Tool {
	out := make([]tool.Tool, len(s.tools))
	for i, t := range s.tools {
		out[i] = t
	}
	return out
}

// Same reports whether two sets have the same tools.
func (s *Set) Same(other *Set) bool {
	return other != nil && slices.Equal(s.tools, other.tools)
}

// Locate converts err, an error about a setting of the tool with this id, to a [*Problem]. field is the path of the setting in the
// manifest, and the problem has its position. For an unknown tool, Locate returns err.
func (s *Set) Locate(id, field string, err error) error {
	for _, t := range s.tools {
		if t.m.ID == id {
			return t.at.problem(field, "%v", err)
		}
	}
	return err
}

// Retire ends the persistent programs of the tools that are not in next. Busy programs finish their current call first.
func (s *Set) Retire(next *Set) {
	if s == nil {
		return
	}
	kept := map[*scripted]bool{}
	if next != nil {
		for _, t := range next.tools {
			kept[t] = true
		}
	}
	for _, t := range s.tools {
		if kept[t] {
			continue
		}
		for _, p := range t.pools() {
			p.retire()
		}
	}
}

// Close ends all persistent programs and waits for their end.
func (s *Set) Close() {
	if s == nil {
		return
	}
	for _, t := range s.tools {
		for _, p := range t.pools() {
			p.close()
		}
	}
}

// read returns the tool of a manifest file.
func read(cfg *Config, path string) (*scripted, error) {
	text, err := readManifest(path)
	if err != nil {
		return nil, &Problem{File: path, Reason: err.Error()}
	}
	return newTool(cfg, path, text)
}

// newTool returns the tool of a manifest text.
func newTool(cfg *Config, path string, text []byte) (*scripted, error) {
	m, r := parse(path, text)
	if len(r.problems) == 0 {
		m.check(r)
	}
	if len(r.problems) > 0 {
		return nil, errors.Join(r.problems...)
	}
	t := newScripted(cfg, m, r)
	if len(r.problems) > 0 {
		return nil, errors.Join(r.problems...)
	}
	return t, nil
}

// readManifest reads a manifest file. It rejects a file that every user of the machine can write.
func readManifest(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, bare(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	case info.Mode().Perm()&0o002 != 0:
		return nil, errors.New("is writable for every user of this machine; run chmod o-w")
	case info.Size() > maxManifest:
		return nil, fmt.Errorf("has %d bytes; a manifest has at most %d", info.Size(), maxManifest)
	}
	text, err := os.ReadFile(path)
	return text, bare(err)
}

// bare returns the cause of a file error, without the file name.
func bare(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}
