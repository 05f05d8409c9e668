package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/subagent"
)

// Subagent is a tool that gives tasks to another model.
type Subagent struct {
	Name           string        `yaml:"name" required:"true" unique:"true" format:"id" help:"id of the tool"`
	Description    string        `yaml:"description" help:"description that models read of it; empty is a sentence about any"`
	Protocol       string        `yaml:"protocol" required:"true" oneof:"openai anthropic" help:"API of the endpoint"`
	Endpoint       string        `yaml:"endpoint" required:"true" help:"base URL, with /v1 for openai, without for anthropic"`
	Model          string        `yaml:"model" required:"true" help:"name of the model"`
	Key            string        `yaml:"key" format:"reference" help:"secret://name of the key; one of key, key_file and key_env, or none"`
	KeyFile        string        `yaml:"key_file" help:"file whose text is the key, read for each request"`
	KeyEnv         string        `yaml:"key_env" help:"variable of the daemon's environment that is the key"`
	System         string        `yaml:"system" help:"text that the model reads before its task; empty is a sentence about its purpose"`
	Tools          SubagentTools `yaml:"tools"`
	Depth          int           `yaml:"depth" default:"2" min:"1" max:"8" help:"levels of subagents, with this one"`
	Turns          int           `yaml:"turns" default:"20" min:"1" max:"1000" help:"answers of the model"`
	Tokens         int           `yaml:"tokens" default:"200000" min:"1" max:"1000000000000" help:"tokens of all answers, read and written"`
	AnswerTokens   int           `yaml:"answer_tokens" default:"0" min:"0" max:"1000000000" help:"tokens of one answer; 0 is the endpoint's limit, and 8192 for anthropic"`
	Time           time.Duration `yaml:"time" default:"10m" min:"1ms" max:"1d" help:"time that it works, without waiting for people"`
	RequestTimeout time.Duration `yaml:"request_timeout" default:"2m" min:"1ms" max:"1h" help:"time of one request to the endpoint"`
	Tier           string        `yaml:"tier" default:"confirm" oneof:"observe confirm escalate" help:"tier of the tool"`
	Parallel       bool          `yaml:"parallel" help:"let several of its calls of one thread run at once"`
}

// SubagentTools are globs on tool ids.
type SubagentTools struct {
	Allow   []string `yaml:"allow" format:"glob" help:"globs on the ids of tools that it may use, of those that its caller may use; none is all"`
	Exclude []string `yaml:"exclude" format:"glob" help:"globs on the ids of tools taken from these"`
}

func (c *Config) validateSubagents(wrong complaint) {
	for i := range c.Subagents {
		s, key := &c.Subagents[i], fmt.Sprintf("subagents[%d]", i)
		if _, err := subagent.New(c.SubagentConfig(s)); err != nil {
			wrong(key, "%v", err)
		}
		if given(s.Key, s.KeyFile, s.KeyEnv) > 1 {
			wrong(key, "one of key, key_file and key_env says where the key is, not two")
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

// ownKey reports whether the key is not one of the daemon's secrets.
func (s *Subagent) ownKey() bool { return s.KeyFile != "" || s.KeyEnv != "" }

// SubagentNames returns the ids of the tools that are subagents.
func (c *Config) SubagentNames() (names []string) {
	for i := range c.Subagents {
		names = append(names, c.Subagents[i].Name)
	}
	return names
}
