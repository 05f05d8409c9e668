package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/metric"
	"github.com/toold-dev/toold/plugins/notify"
	"github.com/toold-dev/toold/secret"
	"github.com/toold-dev/toold/setting"
)

// notifyTargets returns the configured targets. It reads their secret files.
func notifyTargets(c *config.Config) ([]notify.Target, error) {
	var problems setting.Problems
	targets := slices.Clone(c.Notify.Targets)
	for i := range targets {
		t, key := &targets[i], fmt.Sprintf("targets[%d].", i)
		if t.File != "" {
			text, err := os.ReadFile(t.File)
			if err == nil {
				t.Secrets, err = notify.ParseSecrets(text)
			}
			if err != nil {
				problems.Add(key+"secret_file", "%s: %v", t.File, err)
			}
		}
		if t.Authority != "" {
			var err error
			if t.CA, err = os.ReadFile(t.Authority); err != nil {
				problems.Add(key+"ca", "%v", err)
			}
		}
	}
	return targets, notifyProblems(c, problems.Err())
}

// notifyProblems adds to each problem the source of its setting.
func notifyProblems(c *config.Config, err error) error {
	list, _ := errors.AsType[setting.Problems](err)
	var problems []error
	for _, p := range list {
		problems = append(problems, config.Errorf("notify.%w%s", p, c.SourceOf("notify."+p.Key)))
	}
	return cmp.Or(errors.Join(problems...), err)
}

func (p *plugins) addNotify(c *config.Config, references expander) error {
	targets, err := notifyTargets(c)
	if err != nil {
		return err
	}
	n, err := notify.New(notify.Config{Targets: targets, Resolve: func(ctx context.Context, target, reference string) (string, error) {
		return references.Expand(ctx, secret.Everywhere, "notify:"+target, "secret", reference)
	}})
	if err != nil {
		return notifyProblems(c, err)
	}
	if len(targets) > 0 {
		p.notify = n
		p.set.Notifier = append(p.set.Notifier, hook.Entry[hook.Notifier]{Name: notify.Name, Hook: n})
		of := func(c *config.Config) any {
			targets, _ := notifyTargets(c) // Ignore errors here: the start and each reload read the targets with their secrets and report errors.
			return targets
		}
		p.add(c, "notify", of, func(c *config.Config) error {
			targets, err := notifyTargets(c)
			if err != nil {
				return err
			}
			return n.Swap(targets)
		})
	}
	return nil
}

// notify delivers the letters that calls produce. Without targets, it only turns letters for removed targets into dead letters.
func (d *daemon) notify(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-d.leaving:
			stop()
		case <-ctx.Done():
		}
	}()
	if d.plugins.notify != nil {
		_ = d.plugins.notify.Run(ctx, wire.Outbox(d.engine, d.store.Now), d.log) // returns no error except that of ctx
		return
	}
	if err := d.engine.Outbox().KeepQueues(ctx, notify.Name, nil); err != nil && ctx.Err() == nil {
		d.log.Warn("letters to removed targets not made dead letters", zap.Error(err))
	}
}

func (d metricsPage) ofNotify(t *metric.Text) {
	var stats []notify.Stats
	if d.plugins.notify != nil {
		stats = d.plugins.notify.Stats()
	}
	t.Counter("notify_attempts_total", "Attempts to deliver letters, by target and whether the receiver took them.")
	for _, s := range stats {
		t.Value("notify_attempts_total", float64(s.Delivered), "target", s.Target, "outcome", "delivered")
		t.Value("notify_attempts_total", float64(s.Failed), "target", s.Target, "outcome", "failed")
	}
	t.Counter("notify_dead_total", "Letters that became dead letters, by target.")
	for _, s := range stats {
		t.Value("notify_dead_total", float64(s.Dead), "target", s.Target)
	}
	t.Gauge("notify_waiting", "Letters in memory that wait for delivery, by target; at most 256 of the stored letters.")
	for _, s := range stats {
		t.Value("notify_waiting", float64(s.Waiting), "target", s.Target)
	}
}
