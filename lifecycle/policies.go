package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// The kinds of policies in the journal.
const (
	policyRule = "rule"
	policyMode = "mode"
)

// Policies are the remembered rules and the permission modes in force, in memory: gates ask them about calls. They are
// filled when the engine recovers and follow each commit. Their methods may be called from many goroutines; those that
// gates call take no lock and read no store.
type Policies struct {
	store store.Store

	setting sync.Mutex // held while a policy is set or removed, over the commit

	mu    sync.Mutex                                // held while what follows is replaced
	rules atomic.Pointer[map[toolName][]*call.Rule] // each map is never changed
	modes atomic.Pointer[map[belonging]*chosenMode] // each map is never changed
}

// toolName is a tool in a namespace.
type toolName struct{ namespace, tool string }

// NewPolicies returns the policies of a store, empty until the engine on it has recovered.
func NewPolicies(s store.Store) *Policies {
	p := &Policies{store: s}
	p.rules.Store(&map[toolName][]*call.Rule{})
	p.modes.Store(&map[belonging]*chosenMode{})
	return p
}

// A RuleQuery says whose rules may serve a call.
type RuleQuery struct {
	Gate                  string
	Namespace             string
	Principal, OnBehalfOf string
	Run, Thread           string
	Tool, ToolDigest      string
}

// InForce returns the rules that hold for a call, but for their options, which the gate has to compare. They are shared:
// read them only.
func (p *Policies) InForce(q *RuleQuery) []*call.Rule {
	of := (*p.rules.Load())[toolName{q.Namespace, q.Tool}]
	if len(of) == 0 {
		return nil
	}
	now := p.store.Now() // its clock never runs backwards: what has ended stays so
	var found []*call.Rule
	for _, r := range of {
		if r.Gate == q.Gate && r.ToolDigest == q.ToolDigest && r.Principal == q.Principal && r.OnBehalfOf == q.OnBehalfOf &&
			now.Before(r.Until) && r.ScopeID == scopeOf(r.Scope, q.Run, q.Thread) {
			found = append(found, r)
		}
	}
	return found
}

func scopeOf(s tool.Scope, run, thread string) string {
	switch s {
	case tool.RunScope:
		return run
	case tool.ThreadScope:
		return thread
	}
	return ""
}

// all returns the rules of a namespace that have not ended, oldest first.
func (p *Policies) all(namespace string) []*call.Rule {
	now := p.store.Now()
	var found []*call.Rule
	for name, of := range *p.rules.Load() {
		if name.namespace != namespace {
			continue
		}
		for _, r := range of {
			if now.Before(r.Until) {
				found = append(found, r)
			}
		}
	}
	slices.SortFunc(found, func(a, b *call.Rule) int { return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID)) })
	return found
}

// putRule puts a rule that is in the journal in force. What has ended goes on the way.
func (p *Policies) putRule(rule *call.Rule) {
	now := p.store.Now()
	p.changeRules(rule.Namespace, rule.Tool, func(of []*call.Rule) []*call.Rule {
		of = slices.DeleteFunc(of, func(r *call.Rule) bool { return r.ID == rule.ID || !now.Before(r.Until) })
		return append(of, rule)
	})
}

func (p *Policies) dropRule(rule *call.Rule) {
	p.changeRules(rule.Namespace, rule.Tool, func(of []*call.Rule) []*call.Rule {
		return slices.DeleteFunc(of, func(r *call.Rule) bool { return r.ID == rule.ID })
	})
}

// changeRules replaces the rules of a tool; change gets a copy.
func (p *Policies) changeRules(namespace, id string, change func([]*call.Rule) []*call.Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := toolName{namespace, id}
	next := maps.Clone(*p.rules.Load())
	if next[name] = change(slices.Clone(next[name])); len(next[name]) == 0 {
		delete(next, name)
	}
	p.rules.Store(&next)
}

// dropRun takes what was set for a run out of force; the journal has dropped it.
func (p *Policies) dropRun(namespace, run string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rules := map[toolName][]*call.Rule{}
	for name, of := range *p.rules.Load() {
		if name.namespace == namespace {
			of = slices.DeleteFunc(slices.Clone(of), func(r *call.Rule) bool { return r.Scope == tool.RunScope && r.ScopeID == run })
		}
		if len(of) > 0 {
			rules[name] = of
		}
	}
	p.rules.Store(&rules)
	modes := maps.Clone(*p.modes.Load())
	delete(modes, belonging{namespace: namespace, run: run})
	p.modes.Store(&modes)
}

// Policies returns the rules and modes in force.
func (e *Engine) Policies() *Policies { return e.policies }

// RefreshPolicies takes out of force what the journal has forgotten: call it after a trim.
func (e *Engine) RefreshPolicies(ctx context.Context) error { return e.policies.load(ctx, e.log) }

// load reads what the journal has, in place of what is in memory. A policy that cannot be read is told and left out: the
// question that it answered is asked again.
func (p *Policies) load(ctx context.Context, log *zap.Logger) error {
	p.setting.Lock()
	defer p.setting.Unlock()
	p.mu.Lock() // what commits meanwhile is put in force after this
	defer p.mu.Unlock()
	rules, modes := map[toolName][]*call.Rule{}, map[belonging]*chosenMode{}
	now := p.store.Now()
	err := p.store.Policies(ctx, func(stored store.Policy, err error) error {
		var rule call.Rule
		var mode chosenMode
		switch {
		case err != nil:
		case stored.Kind == policyRule:
			if err = json.Unmarshal(stored.Value, &rule); err == nil && rule.Revoked == nil && now.Before(rule.Until) {
				name := toolName{rule.Namespace, rule.Tool}
				rules[name] = append(rules[name], &rule)
			}
		case stored.Kind == policyMode:
			if err = json.Unmarshal(stored.Value, &mode); err == nil {
				modes[mode.belonging()] = &mode
			}
		}
		if err != nil {
			log.Error("policy not in force: it cannot be read", zap.String("namespace", stored.Namespace), zap.String("kind", stored.Kind),
				zap.String("key", stored.Key), zap.Error(err))
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.rules.Store(&rules)
	p.modes.Store(&modes)
	return nil
}
