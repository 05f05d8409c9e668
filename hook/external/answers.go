package external

import "github.com/toold-dev/toold/tool"

// ResultCodes are the codes of an error that a hook may give in a tool's place. The others say what the engine saw.
func ResultCodes() []tool.Code {
	return []tool.Code{tool.InvalidArguments, tool.ExecutionFailed, tool.Denied, tool.NotFound, tool.ResourceExhausted, tool.Upstream}
}

// KnownDisplay reports whether frontends know a display preference; empty is the default.
func KnownDisplay(d tool.Display) bool {
	switch d {
	case "", tool.DisplayDefault, tool.DisplayCollapsed, tool.DisplayCode, tool.DisplayMarkdown, tool.DisplayDiff, tool.DisplayHidden:
		return true
	}
	return false
}
