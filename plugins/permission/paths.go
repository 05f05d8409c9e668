package permission

import (
	"path"
	"strings"
)

// Paths finds the file in a namespace's workspace to which a text in arguments refers. root is the workspace. clean is the cleaned path of
// the file relative to root. actual is clean with all symbolic links followed, or "" when they lead out of the workspace. ok is false when
// the text refers to no file in the workspace.
type Paths func(namespace, text string) (clean, actual, root string, ok bool)

// maxPath is the maximum length in bytes of a text that is treated as a path. It is the kernel's limit.
const maxPath = 4096

// forms are the forms in which rules see one text of the arguments. A workspace path has two families of forms: relative to the workspace,
// and absolute. Rules may be written with either.
type forms struct {
	families [][2]string
	sent     []string // the text as the client sent it; only restricting rules use this form
}

// formsOf returns the forms of the text at a path.
func (s *subject) formsOf(at argPath, text string) forms {
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

// isPath reports whether the name of its argument marks a value as a file path.
func (s *subject) isPath(at argPath) bool {
	name := s.primary
	for _, step := range at {
		if step.name != "" {
			name = step.name
		}
	}
	return ends(name, pathNames...)
}

// all reports whether holds is true for every form of at least one family.
func (f *forms) all(holds func(string) bool) bool {
	for _, family := range f.families {
		if holds(family[0]) && holds(family[1]) {
			return true
		}
	}
	return false
}

// some reports whether holds is true for any form.
func (f *forms) some(holds func(string) bool) bool {
	for _, family := range f.families {
		if holds(family[0]) || holds(family[1]) {
			return true
		}
	}
	return len(f.sent) > 0 && (holds(f.sent[0]) || holds(f.sent[1]))
}

// pathNames contains words. An argument is a path when its name ends with one of them.
var pathNames = strings.Fields("path paths file files filename dir directory folder source destination target")
