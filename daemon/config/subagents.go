package config

import "github.com/toold-dev/toold/tools/subagent"

// SubagentConfig is the configuration of one, without its key; without a caller it cannot run.
func (c *Config) SubagentConfig(s *subagent.Settings) subagent.Config {
	return subagent.Config{Settings: *s, Siblings: c.SubagentNames(), MaxArguments: c.Limits.Arguments}
}

// SubagentNames returns the ids of the tools that are subagents.
func (c *Config) SubagentNames() (names []string) {
	for i := range c.Subagents {
		names = append(names, c.Subagents[i].Name)
	}
	return names
}
