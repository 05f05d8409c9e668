package daemon

import (
	"errors"
	"reflect"
	"strings"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/audit"
	"github.com/toold-dev/toold/plugins/cache"
	"github.com/toold-dev/toold/plugins/compact"
	"github.com/toold-dev/toold/plugins/loopguard"
	"github.com/toold-dev/toold/plugins/notify"
	"github.com/toold-dev/toold/plugins/ratelimit"
	"github.com/toold-dev/toold/plugins/remind"
	"github.com/toold-dev/toold/tool"
)

// plugins holds the hooks that the configuration enables, in addition to those that every daemon has. A plugin that is not configured at
// the start gets no calls and costs nothing.
type plugins struct {
	set        hook.Set
	reloadable []reloadablePlugin
	notify     *notify.Notifier // nil without targets
	audit      *audit.Filter    // nil when the audit is off
	waker      *wire.Waker      // nil without subagents
	// compact shortens the message of a tool. It is nil when compaction is off.
	compact func(tool, message string) (short, did string, ok bool)
}

// A reloadablePlugin can change its settings without a restart.
type reloadablePlugin struct {
	setting string // key of the setting, or prefix of its group
	of      func(*config.Config) any
	swap    func(*config.Config) error
	now     any // settings in force
	// takes returns an error when the new settings need a restart. It is nil when no change of the settings needs one.
	takes func(*config.Config) error
}

// takes returns an error when new settings, which are valid, need a restart.
func (p *plugins) takes(c *config.Config) error {
	for _, l := range p.reloadable {
		if l.takes != nil {
			if err := l.takes(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// newPlugins creates the plugins of a configuration. Without references, the result is only for checks. An error is a mistake that the user
// can correct.
func newPlugins(c *config.Config, references expander) (*plugins, error) {
	p := &plugins{}
	if c.Audit.Enabled {
		p.audit = audit.New()
		p.set.Filter = append(p.set.Filter, hook.Entry[hook.Filter]{Name: "audit", Hook: p.audit})
	}
	if len(c.Subagents) > 0 {
		p.waker = wire.NewWaker(c.SubagentNames())
		p.set.Notifier = append(p.set.Notifier, hook.Entry[hook.Notifier]{Name: wire.SubagentWaker, Hook: p.waker})
	}
	return p, errors.Join(p.addRatelimit(c), p.addLoopguard(c), p.addCache(c), p.addRemind(c), p.addNotify(c, references), p.addCompact(c))
}

// add registers a plugin whose settings a reload can change.
func (p *plugins) add(c *config.Config, setting string, of func(*config.Config) any, swap func(*config.Config) error) {
	p.reloadable = append(p.reloadable, reloadablePlugin{setting: setting, of: of, swap: swap, now: of(c)})
}

func (p *plugins) addRatelimit(c *config.Config) error {
	l, err := ratelimit.New(ratelimit.Config{Limits: c.Ratelimit})
	if err != nil {
		return config.Errorf("ratelimit: %w", err)
	}
	if len(c.Ratelimit) > 0 {
		p.set.Admit = append(p.set.Admit, hook.Entry[hook.Admit]{Name: "ratelimit", Hook: l, Deadline: hook.NoDeadline})
		p.add(c, "ratelimit", func(c *config.Config) any { return c.Ratelimit }, func(c *config.Config) error { return l.Swap(ratelimit.Config{Limits: c.Ratelimit}) })
	}
	return nil
}

func (p *plugins) addLoopguard(c *config.Config) error {
	g, err := loopguard.New(c.Loopguard)
	if err != nil {
		return config.Errorf("loopguard: %w", err)
	}
	if guards(&c.Loopguard) {
		p.set.Admit = append(p.set.Admit, hook.Entry[hook.Admit]{Name: "loopguard", Hook: g, Deadline: hook.NoDeadline})
		p.set.Filter = append(p.set.Filter, hook.Entry[hook.Filter]{Name: "loopguard", Hook: g})
		p.add(c, "loopguard", func(c *config.Config) any { return c.Loopguard }, func(c *config.Config) error { return g.Swap(c.Loopguard) })
	}
	return nil
}

// addCache adds the cache. It stores results before reminders are added to them. A cache rule that names documents makes the gate read the
// journal, and the gate then needs a deadline. Deadlines are fixed at the start, so adding the first such rule needs a restart.
func (p *plugins) addCache(c *config.Config) error {
	cfg := c.Cache
	kept, err := cache.New(cfg)
	if err != nil {
		return config.Errorf("cache: %w", err)
	}
	if len(c.Cache.Rules) == 0 {
		return nil
	}
	gate := hook.Entry[hook.Gate]{Name: "cache", Hook: kept, OnFailure: hook.FailAllow, Match: readOnlyCalls()}
	if !cfg.ReadsDocuments() {
		gate.Deadline = hook.NoDeadline
	}
	p.set.Gate = append(p.set.Gate, gate)
	p.set.After = append(p.set.After, hook.Entry[hook.After]{Name: "cache", Hook: kept, Match: readOnlyCalls()})
	p.add(c, "cache", func(c *config.Config) any { return c.Cache }, func(c *config.Config) error { return kept.Swap(c.Cache) })
	p.reloadable[len(p.reloadable)-1].takes = func(c *config.Config) error {
		if c.Cache.ReadsDocuments() && !cfg.ReadsDocuments() {
			return config.Errorf("cache: the first rule with documents needs a restart")
		}
		return nil
	}
	return nil
}

func readOnlyCalls() hook.Match { return hook.Match{Mutability: []tool.Mutability{tool.ReadOnly}} }

func (p *plugins) addRemind(c *config.Config) error {
	r, err := remind.New(remind.Config{Reminders: c.Remind})
	if err != nil {
		return config.Errorf("remind: %w", err)
	}
	if len(c.Remind) > 0 {
		p.set.After = append(p.set.After, hook.Entry[hook.After]{Name: "remind", Hook: r})
		p.add(c, "remind", func(c *config.Config) any { return c.Remind }, func(c *config.Config) error { return r.Swap(remind.Config{Reminders: c.Remind}) })
	}
	return nil
}

func (p *plugins) addCompact(c *config.Config) error {
	made, err := compact.New(c.Compact)
	if err != nil {
		return config.Errorf("compact: %w", err)
	}
	if len(c.Compact.Tools) > 0 {
		p.compact = made.Compact
		p.add(c, "compact", func(c *config.Config) any { return c.Compact }, func(c *config.Config) error { return made.Swap(c.Compact) })
	}
	return nil
}

// reloads reports whether a reload can change a setting, because it belongs to a reloadable plugin.
func (p *plugins) reloads(key string) bool {
	for _, l := range p.reloadable {
		if key == l.setting || strings.HasPrefix(key, l.setting+".") {
			return true
		}
	}
	return false
}

// reload applies the settings of a configuration that newPlugins accepted. It returns the changed settings.
func (p *plugins) reload(c *config.Config) (changed []string, err error) {
	for i := range p.reloadable {
		l := &p.reloadable[i]
		if reflect.DeepEqual(l.now, l.of(c)) {
			continue
		}
		if err := l.swap(c); err != nil {
			return changed, err
		}
		l.now = l.of(c)
		changed = append(changed, l.setting)
	}
	return changed, nil
}

// guards reports whether the loop guard has a limit.
func guards(l *loopguard.Config) bool { return l.Repeats+l.Calls+l.Failures > 0 }
