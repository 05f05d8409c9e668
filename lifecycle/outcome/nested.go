package outcome

import (
	"maps"
	"slices"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// UnseenCalls is the key of a result's metadata that lists the ids of nested calls whose end is not confirmed. These calls may still run
// although their parent has ended.
const UnseenCalls = "unseen_calls"

// Nested describes the nested calls of a call at its end.
type Nested struct {
	Unseen  []string // ids of the calls that may still run
	Unknown bool     // the tool could not report its nested calls
}

// AddTo adds the nested calls without a confirmed end to the result.
func (n Nested) AddTo(out *Terminal) {
	if len(n.Unseen) == 0 && !n.Unknown {
		return
	}
	text := "it is not known whether its nested calls have ended"
	if !n.Unknown {
		text = "nested calls that may still run: " + strings.Join(n.Unseen, ", ")
	}
	out.Executed = call.ExecutedUnknown
	r := CopyResult(out.Result)
	if r.Error != nil {
		r.Error.Message = strings.TrimRight(r.Error.Message, ".") + "; " + text
	}
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	r.Metadata[UnseenCalls] = strings.Join(slices.Sorted(slices.Values(n.Unseen)), " ")
	out.Result = r
}

// CopyResult returns a copy of a result that shares nothing that the caller may change.
func CopyResult(r *tool.Result) *tool.Result {
	c := *r
	c.Content, c.Artifacts, c.Metadata = slices.Clone(r.Content), slices.Clone(r.Artifacts), maps.Clone(r.Metadata)
	if r.Error != nil {
		e := *r.Error
		e.Violations = slices.Clone(e.Violations)
		c.Error = &e
	}
	return &c
}
