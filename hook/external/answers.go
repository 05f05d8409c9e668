package external

import "github.com/toold-dev/toold/tool"

// ResultCodes returns the error codes that a hook may use in a result that replaces the tool's. The engine uses the other codes for its own
// observations.
func ResultCodes() []tool.Code {
	return []tool.Code{tool.InvalidArguments, tool.ExecutionFailed, tool.Denied, tool.NotFound, tool.ResourceExhausted, tool.Upstream}
}

// KnownDisplay reports whether frontends know a display preference. Empty means the default.
func KnownDisplay(d tool.Display) bool {
	switch d {
	case "", tool.DisplayDefault, tool.DisplayCollapsed, tool.DisplayCode, tool.DisplayMarkdown, tool.DisplayDiff, tool.DisplayHidden:
		return true
	}
	return false
}
