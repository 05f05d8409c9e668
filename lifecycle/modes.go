package lifecycle

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// DefaultMode is the mode of runs and threads for which none was chosen.
const DefaultMode = "default"

// Modes knows the permission modes.
type Modes interface {
	// MayChoose reports whether somebody may choose a mode, and whether there is such a mode.
	MayChoose(mode string, p tool.Principal) (may, exists bool)
}

// chosenMode is the mode of a run or thread, as it is stored.
type chosenMode struct {
	Namespace string         `json:"namespace"`
	Run       string         `json:"run_id,omitempty"`
	Thread    string         `json:"thread_id,omitempty"`
	Mode      string         `json:"mode"`
	Owner     string         `json:"owner"` // whose run or thread it is, also before its first call
	By        tool.Principal `json:"by"`
	Set       time.Time      `json:"set"`
}

func (m *chosenMode) belonging() belonging { return belonging{m.Namespace, m.Run, m.Thread} }

// Modes returns the modes that were chosen for a run and a thread; "" where none was.
func (p *Policies) Modes(namespace, run, thread string) (ofRun, ofThread string) {
	modes := *p.modes.Load()
	if len(modes) == 0 {
		return "", ""
	}
	if m := modes[belonging{namespace: namespace, run: run}]; m != nil && run != "" {
		ofRun = m.Mode
	}
	if m := modes[belonging{namespace: namespace, thread: thread}]; m != nil && thread != "" {
		ofThread = m.Mode
	}
	return ofRun, ofThread
}

// OwnModes is Modes for a run and a thread that somebody owns; of those of others it says nothing.
func (p *Policies) OwnModes(namespace, owner, run, thread string) (modes []string) {
	all := *p.modes.Load()
	for _, b := range [...]belonging{{namespace: namespace, run: run}, {namespace: namespace, thread: thread}} {
		if m := all[b]; m != nil && m.Owner == owner && b.run+b.thread != "" {
			modes = append(modes, m.Mode)
		}
	}
	return modes
}

func (p *Policies) mode(b belonging) *chosenMode { return (*p.modes.Load())[b] }

// setMode puts a mode that is in the journal in force; nil is none.
func (p *Policies) setMode(b belonging, m *chosenMode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := maps.Clone(*p.modes.Load())
	if delete(next, b); m != nil {
		next[b] = m
	}
	p.modes.Store(&next)
}

// SetMode chooses the permission mode of a run or a thread, of which no call need be there yet, and returns the one
// before. It holds for gates that are asked from then on. Leaving a mode needs what choosing it needs.
func (e *Engine) SetMode(ctx context.Context, p tool.Principal, run, thread, mode string) (previous string, err error) {
	if e.cfg.Modes == nil {
		return "", call.Refuse(call.FailedPrecondition, "NO_MODES", "this daemon has no permission modes")
	}
	b := belonging{p.Namespace, run, thread}
	owner, err := e.modeOwner(ctx, p, b)
	if err != nil {
		return "", err
	}
	e.policies.setting.Lock()
	defer e.policies.setting.Unlock()
	previous = DefaultMode
	if m := e.policies.mode(b); m != nil {
		previous = m.Mode
	}
	if err := e.mayChange(p, previous, mode); err != nil {
		return previous, err
	}
	next := &chosenMode{Namespace: p.Namespace, Run: run, Thread: thread, Mode: mode, Owner: owner, By: p, Set: e.store.Now()}
	stored, err := modePolicy(next)
	if err != nil {
		return previous, err
	}
	if mode == DefaultMode {
		stored.Value, next = nil, nil
	}
	if err := e.putPolicy(ctx, stored); err != nil {
		return previous, err
	}
	e.policies.setMode(b, next)
	e.log.Info("permission mode changed", zap.String("run_id", run), zap.String("thread_id", thread), zap.String("from", previous),
		zap.String("to", mode), zap.String("by", p.Subject))
	return previous, nil
}

func modePolicy(m *chosenMode) (store.Policy, error) {
	b, err := json.Marshal(m)
	stored := store.Policy{Namespace: m.Namespace, Kind: policyMode, Key: "run " + m.Run, Scope: tool.RunScope, ScopeID: m.Run, Value: b}
	if m.Run == "" {
		stored.Key, stored.Scope, stored.ScopeID = "thread "+m.Thread, tool.ThreadScope, m.Thread
	}
	return stored, err
}

// modeOwner returns whose a run or thread is. A caller takes one that nobody has begun.
func (e *Engine) modeOwner(ctx context.Context, p tool.Principal, b belonging) (string, error) {
	what, id := "RUN", b.run
	if b.run == "" {
		what, id = "THREAD", b.thread
	}
	if id == "" || b.run != "" && b.thread != "" {
		return "", call.InvalidField("selector", "name a run or a thread")
	}
	claimant := ""
	if p.HasRole("caller") || p.HasRole("delegate") {
		claimant = p.Subject
	}
	owner, err := e.ownerOf(ctx, b, claimant)
	if err != nil {
		return "", err
	}
	if owner == "" || owner != p.Subject && !p.HasRole("approver") && !p.HasRole("operator") {
		return "", call.Refuse(call.NotFound, what+"_NOT_FOUND", "no %q here", id)
	}
	return owner, nil
}

// mayChange asks for both modes: nobody shakes off what only somebody else could have put on. A mode that is not there
// any more is left by an operator.
func (e *Engine) mayChange(p tool.Principal, from, to string) error {
	may, exists := e.cfg.Modes.MayChoose(to, p)
	if !exists {
		return call.InvalidField("mode", "%q is no permission mode here", to)
	}
	leaves, known := e.cfg.Modes.MayChoose(from, p)
	if !known {
		leaves = p.HasRole("operator")
	}
	switch {
	case !may:
		return call.Refuse(call.PermissionDenied, "MODE_NOT_ALLOWED", "the mode %q is not yours to choose", to)
	case !leaves:
		return call.Refuse(call.PermissionDenied, "MODE_NOT_ALLOWED", "the mode %q is not yours to leave", from)
	}
	return nil
}
