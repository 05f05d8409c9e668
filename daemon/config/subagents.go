package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toold-dev/toold/secret"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/subagent"
)

// Subagent is a tool that gives tasks to another model.
type Subagent struct {
	Name           string        `koanf:"name"`            // the tool's id; required, once
	Description    string        `koanf:"description"`     // what models read of it; "": a sentence about any
	Protocol       string        `koanf:"protocol"`        // openai, anthropic; required
	Endpoint       string        `koanf:"endpoint"`        // base URL, with /v1 for openai, without for anthropic; required
	Model          string        `koanf:"model"`           // required
	Key            string        `koanf:"key"`             // secret://name; one of Key, KeyFile and KeyEnv at most, none: no key is sent
	KeyFile        string        `koanf:"key_file"`        // whose text is the key
	KeyEnv         string        `koanf:"key_env"`         // variable of the daemon's environment that is the key
	System         string        `koanf:"system"`          // what the model is told before its task; "": a sentence about what it is for
	Tools          SubagentTools `koanf:"tools"`           // of those that its caller may use; zero: all
	Depth          int           `koanf:"depth"`           // levels of subagents, this one included; 0: 2
	Turns          int           `koanf:"turns"`           // answers of the model; 0: 20
	Tokens         int           `koanf:"tokens"`          // of all answers, read and written; 0: 200,000
	AnswerTokens   int           `koanf:"answer_tokens"`   // of one answer; 0: as the endpoint likes (anthropic: 8,192)
	Time           time.Duration `koanf:"time"`            // that it works, without waiting for people; 0: 10m
	RequestTimeout time.Duration `koanf:"request_timeout"` // of one request to the endpoint; 0: 2m
	Tier           string        `koanf:"tier"`            // observe, confirm, escalate; "": confirm
	Parallel       bool          `koanf:"parallel"`        // several calls of one thread may run beside each other; false: one after the other
}

// SubagentTools are globs on tool ids.
type SubagentTools struct {
	Allow   []string `koanf:"allow"`   // none: all
	Exclude []string `koanf:"exclude"` // taken from these; none: none
}

func (c *Config) validateSubagents(wrong complaint) {
	seen := map[string]bool{}
	for i := range c.Subagents {
		s, key := &c.Subagents[i], fmt.Sprintf("subagents[%d]", i)
		if seen[s.Name] {
			wrong(key, "name %q stands twice", s.Name)
		}
		seen[s.Name] = true
		if _, err := subagent.New(c.SubagentConfig(s)); err != nil {
			wrong(key, "%v", err)
		}
		if err := s.checkKey(); err != nil {
			wrong(key, "%v", err)
		}
	}
}

// SubagentConfig is the configuration of one, without its key; without a caller it cannot run.
func (c *Config) SubagentConfig(s *Subagent) subagent.Config {
	return subagent.Config{
		Name: s.Name, Description: s.Description, Protocol: subagent.Protocol(s.Protocol), Endpoint: s.Endpoint, Model: s.Model, System: s.System,
		Allow: s.Tools.Allow, Exclude: s.Tools.Exclude, Siblings: c.SubagentNames(),
		Depth: s.Depth, Turns: s.Turns, Tokens: int64(s.Tokens), AnswerTokens: s.AnswerTokens, Time: s.Time, Request: s.RequestTimeout,
		Tier: tool.Tier(strings.ToUpper(s.Tier)), Parallel: s.Parallel, MaxArguments: c.Limits.Arguments,
	}
}

func (s *Subagent) checkKey() error {
	given := 0
	for _, by := range []string{s.Key, s.KeyFile, s.KeyEnv} {
		if by != "" {
			given++
		}
	}
	if given > 1 {
		return errors.New("one of key, key_file and key_env says where the key is, not two")
	}
	names, err := secret.References(s.Key)
	if err == nil && s.Key != "" && len(names) == 0 {
		err = errors.New("key is a reference such as secret://name; the key itself has no place in a configuration")
	}
	return err
}

// ownKey reports whether the key is not one of the daemon's secrets.
func (s *Subagent) ownKey() bool { return s.KeyFile != "" || s.KeyEnv != "" }

// SubagentNames returns the ids of the tools that are subagents.
func (c *Config) SubagentNames() (names []string) {
	for i := range c.Subagents {
		names = append(names, c.Subagents[i].Name)
	}
	return names
}
