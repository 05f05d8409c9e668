package tool

import (
	"path"
	"slices"
)

// Glob reports whether a name matches a pattern. A pattern may contain *, ? and [character classes]. A malformed pattern matches nothing.
func Glob(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// AnyGlob reports whether a name matches at least one of the patterns.
func AnyGlob(patterns []string, name string) bool {
	for _, p := range patterns {
		if Glob(p, name) {
			return true
		}
	}
	return false
}

// ValidGlob reports whether a pattern is well formed.
func ValidGlob(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil
}

// SearchID is the id of the daemon's tool that finds tools. It finds only tools that the caller's agent may use.
const SearchID = "tool_search"

// Offers reports whether an agent may use a tool: Allow must be empty or match the tool's id, and Exclude must not match the tool. Allow
// need not name the daemon's tool [SearchID], because an export with a limit adds it to the tools that Allow selects.
func (a *Agent) Offers(d *Descriptor) bool {
	searches := d.ID == SearchID && d.Source == "builtin"
	return (len(a.Allow) == 0 || searches || AnyGlob(a.Allow, d.ID)) && !a.Excludes(d)
}

// Excludes reports whether Exclude matches an id of a tool: its id, an alias, or the id that its source gave it. A malformed pattern
// excludes every tool, because toold cannot know which tools the pattern was meant to exclude.
func (a *Agent) Excludes(d *Descriptor) bool {
	for _, p := range a.Exclude {
		if Glob(p, d.ID) || Glob(p, d.OwnID()) || slices.ContainsFunc(d.Aliases, func(alias string) bool { return Glob(p, alias) }) || !ValidGlob(p) {
			return true
		}
	}
	return false
}
