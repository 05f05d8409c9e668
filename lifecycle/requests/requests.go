// Package requests validates the requests of callers.
//
// It checks only the request itself, before anything is stored. After a refusal, the caller may therefore send the same ids again. The
// engine later checks which calls exist and whether there is capacity. For a repeated request of an existing call, it does not check
// capacity.
package requests

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

const (
	maxBatch = 256 // maximum number of calls in a batch

	// Limits on the frontend tools that a caller declares for a run.
	maxDeclared      = 64
	maxDeclaredBytes = 256 << 10
)

// Limits checks requests against the settings of a daemon.
type Limits struct {
	MaxArguments int // maximum size of the arguments in bytes
	// Frontend returns an error when a declaration does not define a valid tool. It is nil when the daemon has no frontend tools.
	Frontend func(*tool.FrontendTool) error
}

// CheckCall returns an error for a call that must not be stored.
func (m *Limits) CheckCall(spec *call.Spec) error {
	if err := m.check(spec); err != nil {
		return err
	}
	return m.checkDeclared(spec)
}

func (m *Limits) check(spec *call.Spec) error {
	if len(spec.Arguments) > m.MaxArguments {
		return call.InvalidField("arguments", "has %d bytes; at most %d are accepted", len(spec.Arguments), m.MaxArguments)
	}
	if spec.Tool == "" {
		return call.InvalidField("tool", "is required; ListTools lists the ids")
	}
	if len(spec.Tool) > 64 {
		return call.InvalidField("tool", "has %d bytes; ids have at most 64", len(spec.Tool))
	}
	for _, globs := range [...][]string{spec.Run.Agent.Allow, spec.Run.Agent.Exclude} {
		for _, g := range globs {
			if !tool.ValidGlob(g) {
				return call.InvalidField("run.agent.tools", "%q is not a pattern of *, ? and [classes]", g)
			}
		}
	}
	r := &spec.Run
	for _, f := range [...]struct{ name, id string }{
		{"run.run_id", r.ID}, {"run.thread_id", r.Thread}, {"run.parent_run_id", r.ParentRun}, {"run.parent_thread_id", r.ParentThread},
		{"run.parent_call_id", r.ParentCall}, {"run.agent.agent_id", r.Agent.ID}, {"run.origin", r.Origin},
		{"retry_of", spec.RetryOf},
	} {
		if strings.ContainsFunc(f.id, func(c rune) bool { return !unicode.IsPrint(c) }) {
			return call.InvalidField(f.name, "has a character that cannot be printed")
		}
	}
	if spec.ID != "" {
		if spec.ID == spec.RetryOf {
			return call.InvalidField("retry_of", "is the call itself; a retry has a call_id of its own")
		}
		return call.CheckID("call_id", spec.ID, 16)
	}
	return nil
}

// checkDeclared refuses declarations of frontend tools that are too many or too large, or that use a name that could belong to a tool of
// the daemon. It fully checks only the declaration of the called tool; the others are checked when they are called.
func (m *Limits) checkDeclared(spec *call.Spec) error {
	if len(spec.Frontend) == 0 {
		return nil
	}
	if m.Frontend == nil {
		return call.InvalidField("run.frontend_tools", "this daemon has no frontend tools")
	}
	if n := len(spec.Frontend); n > maxDeclared {
		return call.InvalidField("run.frontend_tools", "has %d entries; at most %d are accepted", n, maxDeclared)
	}
	size, seen := 0, map[string]bool{}
	for i := range spec.Frontend {
		f := &spec.Frontend[i]
		size += len(f.Name) + len(f.Description) + len(f.Parameters) + len(f.ResponseSchema)
		switch {
		case tool.ValidName(f.Name) != nil:
			return call.InvalidField("run.frontend_tools", "%q is not a name: want 1 to 64 of a-z, A-Z, 0-9, _ and -", f.Name[:min(len(f.Name), 80)])
		case !strings.HasPrefix(f.Name, tool.FrontendPrefix):
			return call.InvalidField("run.frontend_tools", "%q does not begin with %q: a frontend tool never replaces a tool of the daemon", f.Name, tool.FrontendPrefix)
		case seen[f.Name]:
			return call.InvalidField("run.frontend_tools", "%q occurs twice", f.Name)
		}
		seen[f.Name] = true
	}
	if size > maxDeclaredBytes {
		return call.InvalidField("run.frontend_tools", "have %d bytes; at most %d are accepted", size, maxDeclaredBytes)
	}
	if f := spec.Declared(); f != nil {
		if err := m.Frontend(f); err != nil {
			return call.InvalidField("run.frontend_tools", "%s: %v", f.Name, err)
		}
	}
	return nil
}

// CheckBatch sets the defaults of a batch and returns the parsed arguments of its calls. It returns an error for a batch that must not be
// stored.
func (m *Limits) CheckBatch(spec *call.BatchSpec) (parsed []call.Parsed, err error) {
	spec.Strategy, spec.Replay = cmp.Or(spec.Strategy, call.Sequential), cmp.Or(spec.Replay, call.Immediate)
	switch {
	case len(spec.Calls) == 0:
		return nil, call.InvalidField("calls", "is required")
	case len(spec.Calls) > maxBatch:
		return nil, call.InvalidField("calls", "has %d calls; at most %d are accepted", len(spec.Calls), maxBatch)
	case spec.MaxParallel < 0:
		return nil, call.InvalidField("max_parallel", "is %d; 0 is no limit", spec.MaxParallel)
	case !slices.Contains([]call.Strategy{call.Sequential, call.Auto, call.Parallel}, spec.Strategy):
		return nil, call.InvalidField("strategy", "is %q", spec.Strategy)
	case spec.Replay != call.Immediate && spec.Replay != call.AllDecided:
		return nil, call.InvalidField("replay", "is %q", spec.Replay)
	}
	if spec.ID != "" {
		if err := call.CheckID("batch_id", spec.ID, 16); err != nil {
			return nil, err
		}
	}
	known, modelIDs := map[string]bool{}, 0
	for i := range spec.Calls {
		s, at := &spec.Calls[i], "calls["+strconv.Itoa(i)+"]"
		err := m.CheckCall(s)
		switch first := &spec.Calls[0].Run; {
		case err != nil:
			return nil, inCall(err, at)
		case s.Run.ID != first.ID || s.Run.Thread != first.Thread:
			return nil, call.InvalidField(at+".run", "names another run or thread than the first call; a batch is one turn of one run")
		case s.ID != "" && known[s.ID]:
			return nil, call.InvalidField(at+".call_id", "%q is also the id of another call of the batch", s.ID)
		}
		if modelIDs += len(s.ModelCallID); modelIDs > call.MaxModelIDs {
			return nil, call.InvalidField(at+".model_call_id", "has %d bytes; the model's ids of a batch may have at most %d bytes together", len(s.ModelCallID), call.MaxModelIDs)
		}
		known[s.ID] = true
		parsed = append(parsed, call.Parse(s.Arguments))
	}
	return parsed, nil
}

// CheckRetry checks that the call first may be retried by a call of the tool id. The first call must be of the same tool and must have
// ended without success.
func CheckRetry(first *call.Call, id string) error {
	var why string
	switch {
	case first.Tool != id:
		why = "is of the tool " + first.Tool
	case !first.Status.Terminal():
		why = "has not ended"
	case first.Status == call.Succeeded:
		why = "succeeded"
	default:
		return nil
	}
	return call.Refuse(call.FailedPrecondition, "RETRY_OF_INVALID", "call %q cannot be retried: it %s", first.ID, why)
}

// inCall prefixes the field names in err with the position of the call in its batch.
func inCall(err error, at string) error {
	var refusal *call.Refusal
	if !errors.As(err, &refusal) || len(refusal.Violations) != 1 {
		return err
	}
	v := refusal.Violations[0]
	return call.InvalidField(at+"."+v.Field, "%s", v.Description)
}
