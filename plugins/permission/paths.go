package permission

import (
	"path"
	"strings"
)

// Paths says which file of a namespace's workspace a text in arguments names: its clean path from the workspace, and the same
// without symbolic links, which is "" when they lead out of the workspace. It reports false for what names no file of it.
type Paths func(namespace, text string) (clean, actual, root string, ok bool)

// maxPath is the longest text that can be a path, as in the kernel.
const maxPath = 4096

// forms are the ways to read one text of the arguments. A path of the workspace has two families of readings, from the workspace
// and from the root: a rule is written in one of them.
type forms struct {
	families [][2]string
	sent     []string // how it was sent, which counts for what takes away
}

// formsOf returns the forms of a text that stands at a place.
func (s *subject) formsOf(at place, text string) forms {
	sent := [2]string{text, withoutDetours(text)}
	if s.paths == nil || !s.isPath(at) || len(text) > maxPath || schemed(text) {
		return forms{families: [][2]string{sent}}
	}
	clean, actual, root, ok := s.paths(s.in.Namespace, text)
	if !ok {
		return forms{families: [][2]string{sent}}
	}
	absolute := [2]string{path.Join(root, clean)}
	if actual != "" {
		absolute[1] = path.Join(root, actual)
	}
	return forms{families: [][2]string{{clean, actual}, absolute}, sent: sent[:]}
}

// isPath reports whether a place is one of paths, by the name of its argument.
func (s *subject) isPath(at place) bool {
	name := s.primary
	for _, step := range at {
		if step.name != "" {
			name = step.name
		}
	}
	return ends(name, pathNames...)
}

// all reports whether there is a family of which each reading holds.
func (f *forms) all(holds func(string) bool) bool {
	for _, family := range f.families {
		if holds(family[0]) && holds(family[1]) {
			return true
		}
	}
	return false
}

// some reports whether any reading holds.
func (f *forms) some(holds func(string) bool) bool {
	for _, family := range f.families {
		if holds(family[0]) || holds(family[1]) {
			return true
		}
	}
	return len(f.sent) > 0 && (holds(f.sent[0]) || holds(f.sent[1]))
}

// pathNames are the last words of arguments that are paths.
var pathNames = strings.Fields("path paths file files filename dir directory folder source destination target")
