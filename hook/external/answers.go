package external

import "github.com/toold-dev/toold/tool"

// ResultCodes returns the error codes that a hook may use in a result that replaces the tool's result. The other codes are for the engine.
func ResultCodes() []tool.Code {
	return []tool.Code{tool.InvalidArguments, tool.ExecutionFailed, tool.Denied, tool.NotFound, tool.ResourceExhausted, tool.Upstream}
}

// KnownDisplay reports whether d is a display preference that frontends know. The empty preference is known and means the default.
func KnownDisplay(d tool.Display) bool {
	switch d {
	case "", tool.DisplayDefault, tool.DisplayCollapsed, tool.DisplayCode, tool.DisplayMarkdown, tool.DisplayDiff, tool.DisplayHidden:
		return true
	}
	return false
}
