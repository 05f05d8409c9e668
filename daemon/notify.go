package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/metric"
	"github.com/toold-dev/toold/plugins/notify"
	"github.com/toold-dev/toold/secret"
)

// Notify is who hears of calls by webhook.
type Notify struct {
	Targets []NotifyTarget `koanf:"targets"` // none: nobody
}

// NotifyTarget is an address and what it wants to hear.
type NotifyTarget struct {
	Name       string        `koanf:"name"`        // of its queue; required, once
	URL        string        `koanf:"url"`         // https, or http to this machine; required
	Events     []string      `koanf:"events"`      // suspended, finished; none: both
	Match      NotifyMatch   `koanf:"match"`       // the calls; zero: all
	SecretFile string        `koanf:"secret_file"` // one line, or two while they change, of whsec_ and base64; this or Secret
	Secret     string        `koanf:"secret"`      // secret://name, whose value is such a text
	CA         string        `koanf:"ca"`          // PEM file of who signs its certificate; "": the system's
	Content    bool          `koanf:"content"`     // with titles and texts of results, as filters left them; false: names alone
	Timeout    time.Duration `koanf:"timeout"`     // of one attempt; 0: 10s
	FirstDelay time.Duration `koanf:"first_delay"` // before the second attempt, twice as much before each further one; 0: 1s
	MostDelay  time.Duration `koanf:"most_delay"`  // the longest such wait; 0: 1h
	GiveUp     time.Duration `koanf:"give_up"`     // after which it is a dead letter; 0: 3d
	AtOnce     int           `koanf:"at_once"`     // attempts at the same time; 0: 4
}

// NotifyMatch limits a target to some calls: all lists that are not empty must hold.
type NotifyMatch struct {
	Tools      []string `koanf:"tools"` // globs on tool ids
	Namespaces []string `koanf:"namespaces"`
}

func (c *Config) validateNotify(wrong complaint) {
	for i := range c.Notify.Targets {
		t := &c.Notify.Targets[i]
		for _, f := range []struct{ field, value string }{{"name", t.Name}, {"url", t.URL}, {"secret_file", t.SecretFile + t.Secret}} {
			if f.value == "" {
				wrong(fmt.Sprintf("notify.targets[%d]", i), "%s is required", f.field)
			}
		}
		switch {
		case t.Secret != "" && t.SecretFile != "":
			wrong(fmt.Sprintf("notify.targets[%d]", i), "one of secret and secret_file says where the key is, not two")
		case t.Secret != "" && !isReference(t.Secret):
			wrong(fmt.Sprintf("notify.targets[%d]", i), "secret is a reference such as secret://name; the key itself has no place in a configuration")
		}
	}
}

// notifyTargets reads the files that targets name. An error is the user's to correct.
func (c *Config) notifyTargets() (targets []notify.Target, err error) {
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
		if err := t.readSecrets(&to.Secrets); err != nil {
			problems = append(problems, c.notifyProblem(&notify.TargetError{Index: i, Field: "secret_file", Text: err.Error()}))
		}
		if t.CA != "" {
			var err error
			if to.CA, err = os.ReadFile(t.CA); err != nil {
				problems = append(problems, c.notifyProblem(&notify.TargetError{Index: i, Field: "ca", Text: err.Error()}))
			}
		}
		targets = append(targets, to)
	}
	return targets, errors.Join(problems...)
}

func (t *NotifyTarget) readSecrets(to *[]notify.Secret) error {
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
func (c *Config) notifyProblem(e *notify.TargetError) error {
	key := fmt.Sprintf("notify.targets[%d]", e.Index)
	at := key + "." + e.Field
	if _, said := c.loaded.from[at]; !said {
		at = key
	}
	return usagef("%s: %w%s", key, e, c.saidBy(at))
}

func (p *plugins) addNotify(c *Config, references expander) error {
	targets, err := c.notifyTargets()
	if err != nil {
		return err
	}
	n, err := notify.New(notify.Config{Targets: targets, Resolve: func(ctx context.Context, target, reference string) (string, error) {
		return references.Expand(ctx, secret.Everywhere, "notify:"+target, "secret", reference)
	}})
	if err != nil {
		return c.notifyProblems(err)
	}
	if len(targets) > 0 {
		p.notify = n
		p.set.Notifier = append(p.set.Notifier, hook.Entry[hook.Notifier]{Name: notify.Name, Hook: n})
		of := func(c *Config) any {
			targets, _ := c.notifyTargets() // the secrets too; what is wrong was told before
			return targets
		}
		p.add(c, "notify", of, func(c *Config) error {
			targets, err := c.notifyTargets()
			if err != nil {
				return err
			}
			return n.Swap(targets)
		})
	}
	return nil
}

func (c *Config) notifyProblems(err error) error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return usagef("notify.targets: %w", err)
	}
	var problems []error
	for _, err := range several.Unwrap() {
		var of *notify.TargetError
		if errors.As(err, &of) {
			problems = append(problems, c.notifyProblem(of))
		} else {
			problems = append(problems, usagef("notify.targets: %w", err))
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
	if err := d.engine.KeepQueues(ctx, notify.Name, nil); err != nil && ctx.Err() == nil {
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
