package config

import "github.com/toold-dev/toold/tools/subagent"

// SubagentConfig returns the configuration of a subagent without its API key and its caller. The subagent cannot run without a caller.
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
