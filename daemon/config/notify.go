package config

import (
	"fmt"
	"time"
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
