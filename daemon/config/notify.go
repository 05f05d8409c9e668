package config

import (
	"fmt"

	"github.com/toold-dev/toold/plugins/notify"
)

// Notify says who hears of calls by webhook.
type Notify struct {
	Targets []notify.Target `yaml:"targets" help:"addresses that get a webhook for events of calls" see:"plugins/notify.md"`
}

func (c *Config) validateNotify(wrong complaint) {
	for i := range c.Notify.Targets {
		if t := &c.Notify.Targets[i]; given(t.Reference, t.File) != 1 {
			wrong(fmt.Sprintf("notify.targets[%d]", i), "needs one of secret and secret_file, and not both")
		}
	}
}
