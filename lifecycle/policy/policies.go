package policy

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

// Kinds of policies in the journal.
const (
	KindRule = "rule"
	KindMode = "mode"
)

// A Store stores policies. Its clock never runs backwards, so an expired rule stays expired.
type Store interface {
	Now() call.Stamp
	// Policies invokes visit with every policy of all namespaces. It passes a damaged policy together with its error.
	Policies(ctx context.Context, visit func(store.Policy, error) error) error
	// PutPolicy durably stores or removes a policy that belongs to no call.
	PutPolicy(ctx context.Context, p store.Policy) error
}

// Policies holds the remembered rules and the permission modes in force, in memory. [Service.Load] loads them, and each commit updates
// them. All methods may be called concurrently. The methods that gates call take no lock and do not read the store.
type Policies struct {
	store Store

	mu    sync.Mutex                                  // held while one of the maps below is replaced
	rules atomic.Pointer[map[toolName][]*call.Rule]   // the map is never changed, only replaced
	modes atomic.Pointer[map[RunOrThread]*chosenMode] // the map is never changed, only replaced
}

type toolName struct{ namespace, tool string }

// New returns the policies of a store. They are empty until [Service.Load].
func New(s Store) *Policies {
	p := &Policies{store: s}
	p.rules.Store(&map[toolName][]*call.Rule{})
	p.modes.Store(&map[RunOrThread]*chosenMode{})
	return p
}

// Rules returns the rules that match the query. The gate then compares the options of the rules. The rules are shared; do not change them.
func (p *Policies) Rules(q *call.RuleQuery) []*call.Rule {
	of := (*p.rules.Load())[toolName{q.Namespace, q.Tool}]
	if len(of) == 0 {
		return nil
	}
	now := p.store.Now()
	var found []*call.Rule
	for _, r := range of {
		if r.Gate == q.Gate && r.ToolDigest == q.ToolDigest && r.Principal == q.Principal && r.OnBehalfOf == q.OnBehalfOf &&
			now < r.Until && r.ScopeID == scopeOf(r.Scope, q.Run, q.Thread) {
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

// all returns the rules of a namespace that have not expired, oldest first.
func (p *Policies) all(namespace string) []*call.Rule {
	now := p.store.Now()
	var found []*call.Rule
	for name, of := range *p.rules.Load() {
		if name.namespace != namespace {
			continue
		}
		for _, r := range of {
			if now < r.Until {
				found = append(found, r)
			}
		}
	}
	slices.SortFunc(found, func(a, b *call.Rule) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(a.ID, b.ID))
	})
	return found
}

// PutRule puts a stored rule in force, and removes expired rules of the same tool.
func (p *Policies) PutRule(rule *call.Rule) {
	now := p.store.Now()
	p.changeRules(rule.Namespace, rule.Tool, func(of []*call.Rule) []*call.Rule {
		of = slices.DeleteFunc(of, func(r *call.Rule) bool { return r.ID == rule.ID || now >= r.Until })
		return append(of, rule)
	})
}

func (p *Policies) dropRule(rule *call.Rule) {
	p.changeRules(rule.Namespace, rule.Tool, func(of []*call.Rule) []*call.Rule {
		return slices.DeleteFunc(of, func(r *call.Rule) bool { return r.ID == rule.ID })
	})
}

// changeRules replaces the rules of a tool by the result of change, which gets a copy of them.
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

// DropRun removes the policies of a run from memory. The journal has already removed them.
func (p *Policies) DropRun(namespace, run string) {
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
	delete(modes, Run(namespace, run))
	p.modes.Store(&modes)
}

// load replaces the policies in memory with those in the journal. It logs and skips a policy that it cannot read. Without a skipped rule,
// people are asked again.
func (p *Policies) load(ctx context.Context, log *zap.Logger) error {
	p.mu.Lock() // Because of the lock, a policy that is committed during the load waits, and takes effect after the load.
	defer p.mu.Unlock()
	rules, modes := map[toolName][]*call.Rule{}, map[RunOrThread]*chosenMode{}
	now := p.store.Now()
	err := p.store.Policies(ctx, func(stored store.Policy, err error) error {
		var rule call.Rule
		var mode chosenMode
		switch {
		case err != nil:
		case stored.Kind == KindRule:
			if err = json.Unmarshal(stored.Value, &rule); err == nil && rule.Revoked == nil && now < rule.Until {
				name := toolName{rule.Namespace, rule.Tool}
				rules[name] = append(rules[name], &rule)
			}
		case stored.Kind == KindMode:
			if err = json.Unmarshal(stored.Value, &mode); err == nil {
				modes[mode.of()] = &mode
			}
		}
		if err != nil {
			log.Error("policy ignored: it cannot be read", zap.String("namespace", stored.Namespace), zap.String("kind", stored.Kind),
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
