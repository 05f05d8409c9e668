package config

import (
	"strings"
	"time"
)

// Workers is about programs that dial in to run tools. Neither time may be zero.
type Workers struct {
	Lease   time.Duration `koanf:"lease"`   // how long a worker may be silent before its calls are taken from it
	Wait    time.Duration `koanf:"wait"`    // how long a call waits for a worker
	Each    int           `koanf:"each"`    // workers of one namespace at once
	Trusted []string      `koanf:"trusted"` // namespace/pool whose definitions may change without an operator; none: no pool's
}

func defaultWorkers() Workers {
	return Workers{Lease: 15 * time.Second, Wait: 30 * time.Second, Each: 256}
}

func (c *Config) validateWorkers(wrong complaint) {
	if n := c.Workers.Each; n < 1 || n > 65_536 {
		wrong("workers.each", "%d is not between 1 and 65536", n)
	}
	for i, pool := range c.Workers.Trusted {
		if namespace, name, ok := strings.Cut(pool, "/"); !ok || namespace == "" || name == "" {
			wrong("workers.trusted", "entry %d is not namespace/pool", i+1)
		}
	}
}
