package policy

import (
	"context"
	"encoding/json"
	"maps"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// DefaultMode is the mode of runs and threads for which no mode was chosen.
const DefaultMode = "default"

// Modes checks permission modes.
type Modes interface {
	// MayChoose reports whether a principal may choose a mode, and whether the mode exists.
	MayChoose(mode string, p tool.Principal) (may, exists bool)
	// All returns the names of all modes, the built-in ones first.
	All() []string
}

// chosenMode is the stored permission mode of a run or thread.
type chosenMode struct {
	Namespace string         `json:"namespace"`
	Run       string         `json:"run_id,omitempty"`
	Thread    string         `json:"thread_id,omitempty"`
	Mode      string         `json:"mode"`
	Owner     string         `json:"owner"` // owner of the run or thread, set even before its first call
	By        tool.Principal `json:"by"`
	Set       call.Stamp     `json:"set"`
}

func (m *chosenMode) of() RunOrThread { return RunOrThread{m.Namespace, m.Run, m.Thread} }

// Modes returns the modes that were chosen for a run and for a thread. A mode is empty when none was chosen.
func (p *Policies) Modes(namespace, run, thread string) (ofRun, ofThread string) {
	modes := *p.modes.Load()
	if len(modes) == 0 {
		return "", ""
	}
	if m := modes[Run(namespace, run)]; m != nil && run != "" {
		ofRun = m.Mode
	}
	if m := modes[Thread(namespace, thread)]; m != nil && thread != "" {
		ofThread = m.Mode
	}
	return ofRun, ofThread
}

// OwnModes returns the modes that were chosen for a run and a thread. It ignores a run or thread that owner did not begin.
func (p *Policies) OwnModes(namespace, owner, run, thread string) (modes []string) {
	all := *p.modes.Load()
	for _, b := range [...]RunOrThread{Run(namespace, run), Thread(namespace, thread)} {
		if m := all[b]; m != nil && m.Owner == owner && b.Run+b.Thread != "" {
			modes = append(modes, m.Mode)
		}
	}
	return modes
}

func (p *Policies) mode(b RunOrThread) *chosenMode { return (*p.modes.Load())[b] }

// setMode puts a stored mode in force. A nil mode removes the current one.
func (p *Policies) setMode(b RunOrThread, m *chosenMode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := maps.Clone(*p.modes.Load())
	if delete(next, b); m != nil {
		next[b] = m
	}
	p.modes.Store(&next)
}

// SetMode sets the permission mode of a run or a thread and returns the previous mode. It may be called before the first call of the run or
// thread. Gates that check a call later use the new mode. To leave a mode, a principal needs the same rights as to choose it.
func (s *Service) SetMode(ctx context.Context, p tool.Principal, run, thread, mode string) (previous string, err error) {
	if s.cfg.Modes == nil {
		return "", call.Refuse(call.FailedPrecondition, "NO_MODES", "this daemon has no permission modes")
	}
	b := RunOrThread{p.Namespace, run, thread}
	owner, err := s.modeOwner(ctx, p, b)
	if err != nil {
		return "", err
	}
	s.setting.Lock()
	defer s.setting.Unlock()
	previous = DefaultMode
	if m := s.cfg.Policies.mode(b); m != nil {
		previous = m.Mode
	}
	if err := s.mayChange(p, previous, mode); err != nil {
		return previous, err
	}
	next := &chosenMode{Namespace: p.Namespace, Run: run, Thread: thread, Mode: mode, Owner: owner, By: p, Set: s.cfg.Policies.store.Now()}
	stored, err := storedMode(next)
	if err != nil {
		return previous, err
	}
	if mode == DefaultMode {
		stored.Value, next = nil, nil
	}
	if err := s.put(ctx, stored); err != nil {
		return previous, err
	}
	s.cfg.Policies.setMode(b, next)
	s.cfg.Log.Info("permission mode changed", zap.String("run_id", run), zap.String("thread_id", thread), zap.String("from", previous),
		zap.String("to", mode), zap.String("by", p.Subject))
	return previous, nil
}

// ModeChoices returns the modes that a principal may choose now for a run or thread that it sees.
func (s *Service) ModeChoices(ctx context.Context, p tool.Principal, run, thread string) (choices []string, err error) {
	if s.cfg.Modes == nil {
		return nil, nil
	}
	b := RunOrThread{p.Namespace, run, thread}
	owner, err := s.cfg.Owners.Owner(ctx, b, "")
	if err != nil || owner != p.Subject && !p.HasRole("approver") && !p.HasRole("operator") {
		return nil, err
	}
	current := DefaultMode
	if m := s.cfg.Policies.mode(b); m != nil {
		current = m.Mode
	}
	for _, mode := range s.cfg.Modes.All() {
		if s.mayChange(p, current, mode) == nil {
			choices = append(choices, mode)
		}
	}
	return choices, nil
}

func storedMode(m *chosenMode) (store.Policy, error) {
	b, err := json.Marshal(m)
	stored := store.Policy{Namespace: m.Namespace, Kind: KindMode, Key: "run " + m.Run, Scope: tool.RunScope, ScopeID: m.Run, Value: b}
	if m.Run == "" {
		stored.Key, stored.Scope, stored.ScopeID = "thread "+m.Thread, tool.ThreadScope, m.Thread
	}
	return stored, err
}

// modeOwner returns the owner of a run or thread. If there is no owner yet, a principal with the role caller or delegate becomes the owner.
func (s *Service) modeOwner(ctx context.Context, p tool.Principal, b RunOrThread) (string, error) {
	if (b.Run == "") == (b.Thread == "") {
		return "", call.InvalidField("selector", "name a run or a thread")
	}
	claimant := ""
	if p.HasRole("caller") || p.HasRole("delegate") {
		claimant = p.Subject
	}
	owner, err := s.cfg.Owners.Owner(ctx, b, claimant)
	if err != nil {
		return "", err
	}
	if owner == "" || owner != p.Subject && !p.HasRole("approver") && !p.HasRole("operator") {
		if b.Run != "" {
			return "", call.Refuse(call.NotFound, "RUN_NOT_FOUND", "no %q here", b.Run)
		}
		return "", call.Refuse(call.NotFound, "THREAD_NOT_FOUND", "no %q here", b.Thread)
	}
	return owner, nil
}

// mayChange checks the rights for the current and the new mode. A principal may leave only a mode that it may also choose. Only an operator
// may leave a mode that no longer exists.
func (s *Service) mayChange(p tool.Principal, from, to string) error {
	may, exists := s.cfg.Modes.MayChoose(to, p)
	if !exists {
		return call.InvalidField("mode", "%q is no permission mode here", to)
	}
	leaves, known := s.cfg.Modes.MayChoose(from, p)
	if !known {
		leaves = p.HasRole("operator")
	}
	switch {
	case !may:
		return call.Refuse(call.PermissionDenied, "MODE_NOT_ALLOWED", "you may not choose the mode %q", to)
	case !leaves:
		return call.Refuse(call.PermissionDenied, "MODE_NOT_ALLOWED", "you may not leave the mode %q", from)
	}
	return nil
}
