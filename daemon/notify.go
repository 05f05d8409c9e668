package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/metric"
	"github.com/toold-dev/toold/plugins/notify"
	"github.com/toold-dev/toold/secret"
)

// notifyTargets reads the files that targets name. An error is the user's to correct.
func notifyTargets(c *config.Config) (targets []notify.Target, err error) {
	var problems []error
	for i := range c.Notify.Targets {
		t := &c.Notify.Targets[i]
		to := notify.Target{
			Name: t.Name, URL: t.URL, Tools: t.Match.Tools, Namespaces: t.Match.Namespaces, Content: t.Content,
			Timeout: t.Timeout, First: t.FirstDelay, Most: t.MostDelay, GiveUp: t.GiveUp, AtOnce: t.AtOnce,
		}
		for _, e := range t.Events {
			to.Events = append(to.Events, notify.Event(e))
		}
		to.Reference = t.Secret
		if err := readNotifySecrets(t, &to.Secrets); err != nil {
			problems = append(problems, notifyProblem(c, &notify.TargetError{Index: i, Field: "secret_file", Text: err.Error()}))
		}
		if t.CA != "" {
			var err error
			if to.CA, err = os.ReadFile(t.CA); err != nil {
				problems = append(problems, notifyProblem(c, &notify.TargetError{Index: i, Field: "ca", Text: err.Error()}))
			}
		}
		targets = append(targets, to)
	}
	return targets, errors.Join(problems...)
}

func readNotifySecrets(t *config.NotifyTarget, to *[]notify.Secret) error {
	if t.Secret != "" {
		return nil
	}
	text, err := os.ReadFile(t.SecretFile)
	if err != nil {
		return err
	}
	if *to, err = notify.ParseSecrets(text); err != nil {
		return fmt.Errorf("%s: %w", t.SecretFile, err)
	}
	return nil
}

// notifyProblem says which setting is meant, and where it stands.
func notifyProblem(c *config.Config, e *notify.TargetError) error {
	key := fmt.Sprintf("notify.targets[%d]", e.Index)
	at := key + "." + e.Field
	if c.SaidBy(at) == "" {
		at = key
	}
	return config.Errorf("%s: %w%s", key, e, c.SaidBy(at))
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
			targets, _ := notifyTargets(c) // with the secrets; start and reload report what is wrong
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

func notifyProblems(c *config.Config, err error) error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return config.Errorf("notify.targets: %w", err)
	}
	var problems []error
	for _, err := range several.Unwrap() {
		var of *notify.TargetError
		if errors.As(err, &of) {
			problems = append(problems, notifyProblem(c, of))
		} else {
			problems = append(problems, config.Errorf("notify.targets: %w", err))
		}
	}
	return errors.Join(problems...)
}

// notify delivers what calls left to be told. Without targets it only sees to what earlier ones have left.
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
		_ = d.plugins.notify.Run(ctx, wire.Outbox(d.engine), d.log) // ends with ctx and has no other error
		return
	}
	if err := d.engine.Outbox().KeepQueues(ctx, notify.Name, nil); err != nil && ctx.Err() == nil {
		d.log.Warn("letters to targets that are gone still wait", zap.Error(err))
	}
}

func (d *daemon) metricsOfNotify(t *metric.Text) {
	var stats []notify.Stats
	if d.plugins.notify != nil {
		stats = d.plugins.notify.Stats()
	}
	t.Counter("notify_attempts_total", "Attempts to deliver letters, by target and whether the receiver took them.")
	for _, s := range stats {
		t.Value("notify_attempts_total", float64(s.Delivered), "target", s.Target, "outcome", "delivered")
		t.Value("notify_attempts_total", float64(s.Failed), "target", s.Target, "outcome", "failed")
	}
	t.Counter("notify_dead_total", "Letters that were given up, by target.")
	for _, s := range stats {
		t.Value("notify_dead_total", float64(s.Dead), "target", s.Target)
	}
	t.Gauge("notify_waiting", "Letters in memory that wait, by target; at most 256 of those that are stored.")
	for _, s := range stats {
		t.Value("notify_waiting", float64(s.Waiting), "target", s.Target)
	}
}
