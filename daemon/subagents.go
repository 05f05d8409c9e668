package daemon

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/plugins/redact"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/tools/frontend"
	"github.com/toold-dev/toold/tools/subagent"
)

// subagentSource is the prefix of the source names of subagents. Each subagent has its own source and so its own circuit breaker.
const subagentSource = "subagent:"

// machineActions are the actions that only frontend tools and subagents use.
func machineActions() gating.MachineActions {
	return gating.MachineActions{frontend.Action: frontend.Source, subagent.Action: subagentSource}
}

// knownKey reads the key of an endpoint and redacts it from then on.
func knownKey(s *subagent.Settings, secrets *redact.Live) (string, error) {
	key, err := readKey(s)
	if err == nil {
		name := "subagent." + s.Name
		err = knowKey(secrets, name[:min(len(name), 64)], key)
	}
	return key, err
}

// readKey reads the key of an endpoint, from a file or an environment variable. Only the file can change while the daemon runs.
func readKey(s *subagent.Settings) (string, error) {
	var text string
	from := s.KeyEnv
	switch {
	case s.KeyFile != "":
		b, err := os.ReadFile(s.KeyFile)
		if err != nil {
			return "", err
		}
		text, from = string(b), s.KeyFile
	case s.KeyEnv != "":
		text = os.Getenv(s.KeyEnv)
	default:
		return "", nil
	}
	if text = strings.TrimSpace(text); text == "" || strings.ContainsAny(text, "\r\n\x00") {
		return "", fmt.Errorf("%s must contain a key in one line", from)
	}
	return text, nil
}

func subagentSources(c *config.Config) (sources []string) {
	for _, name := range c.SubagentNames() {
		sources = append(sources, subagentSource+name)
	}
	return sources
}

func registerSubagents(r *registry.Registry, c *config.Config, caller subagent.Caller, references expander, secrets *redact.Live) error {
	for i := range c.Subagents {
		s := &c.Subagents[i]
		if _, err := knownKey(s, secrets); err != nil {
			return config.Errorf("subagents[%d]: the key: %w%s", i, err, c.SourceOf(fmt.Sprintf("subagents[%d]", i)))
		}
		cfg := c.SubagentConfig(s)
		cfg.Caller = caller
		cfg.KeyOf = func(ctx context.Context, namespace string) (string, error) {
			if s.Key != "" {
				return references.Expand(ctx, namespace, s.Name, "key", s.Key)
			}
			return knownKey(s, secrets)
		}
		made, err := subagent.New(cfg)
		if err == nil {
			err = r.Register(subagentSource+s.Name, made)
		}
		if err != nil {
			return config.Errorf("subagents[%d]: %w", i, err)
		}
	}
	return nil
}

// openSubagents registers the subagents of a daemon.
func (d *daemon) openSubagents() error {
	return registerSubagents(d.tools, d.cfg, wire.Subagents(func() *lifecycle.Engine { return d.engine }, d.tools, d.unlisted), d.references, d.secrets)
}
