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

// plugins are the hooks that the configuration asks for beside those that every daemon has. What it does not name at the
// start is asked about no call, and costs none.
type plugins struct {
	set    hook.Set
	live   []livePlugin
	notify *notify.Notifier // nil: nobody is notified
	audit  *audit.Filter    // nil: no records
	waker  *wire.Waker      // of subagents; nil: there are none
	// compact makes messages shorter; nil: none.
	compact func(tool, message string) (short, did string, ok bool)
}

// A livePlugin takes new settings without a restart.
type livePlugin struct {
	setting string // its key, or the group of its keys
	of      func(*config.Config) any
	swap    func(*config.Config) error
	now     any // the settings in force
	// takes returns why other settings need a restart; nil: none do.
	takes func(*config.Config) error
}

// takes returns why settings that newPlugins accepts need a restart all the same.
func (p *plugins) takes(c *config.Config) error {
	for _, l := range p.live {
		if l.takes != nil {
			if err := l.takes(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// newPlugins makes the plugins of a configuration; without references they are not to be used. An error is the user's to correct.
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

// add notes that a plugin takes new settings.
func (p *plugins) add(c *config.Config, setting string, of func(*config.Config) any, swap func(*config.Config) error) {
	p.live = append(p.live, livePlugin{setting: setting, of: of, swap: swap, now: of(c)})
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

// addCache adds the cache. It keeps results before reminders are added to them. Only a rule that names documents makes the gate
// read the journal; the first such rule needs a restart, because only then the gate has a deadline.
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
	p.live[len(p.live)-1].takes = func(c *config.Config) error {
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

// reloads reports whether a setting is one of a plugin that takes it without a restart.
func (p *plugins) reloads(key string) bool {
	for _, l := range p.live {
		if key == l.setting || strings.HasPrefix(key, l.setting+".") {
			return true
		}
	}
	return false
}

// reload puts the settings of a configuration in force of which newPlugins made plugins. It returns what changed.
func (p *plugins) reload(c *config.Config) (changed []string, err error) {
	for i := range p.live {
		l := &p.live[i]
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

// guards reports whether anything is counted.
func guards(l *loopguard.Config) bool { return l.Repeats+l.Calls+l.Failures > 0 }
