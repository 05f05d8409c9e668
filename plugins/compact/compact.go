// Package compact makes the text of results shorter before a model reads it, and says what it left out.
//
// What was drawn for a terminal goes: escape sequences, and the states of a line that was written over. Lines that repeat
// are folded. Nothing else changes, and what the model reads is never longer than the text as it was.
package compact

import (
	"sync/atomic"

	"github.com/toold-dev/toold/setting"
	"github.com/toold-dev/toold/tool"
)

// A Config says whose results are made shorter.
type Config struct {
	Tools []string `yaml:"tools" format:"glob" help:"globs on the ids of tools whose messages are made shorter for models" see:"plugins/compact.md"`
	From  int      `yaml:"from" default:"4096" min:"0" max:"1048576" help:"bytes of a message from which it is made shorter"`
}

// A Compactor makes texts shorter. It is used from many goroutines.
type Compactor struct{ cfg atomic.Pointer[Config] }

// New returns a compactor, or what is wrong with its configuration.
func New(cfg Config) (*Compactor, error) {
	c := &Compactor{}
	return c, c.Swap(cfg)
}

// Swap takes another configuration, or says what is wrong with it and keeps its own.
func (c *Compactor) Swap(cfg Config) error {
	setting.Fill(&cfg)
	if err := setting.Check(cfg).Err(); err != nil {
		return err
	}
	c.cfg.Store(&cfg)
	return nil
}

// gain is what has to be won for it to be worth a note, in bytes. No note is as long.
const gain = 512

// Compact returns a shorter text of a tool's result and what was done to it; ok is false when it stays as it is.
func (c *Compactor) Compact(id, text string) (short, did string, ok bool) {
	cfg := c.cfg.Load()
	if len(text) < max(cfg.From, gain) || !tool.AnyGlob(cfg.Tools, id) {
		return "", "", false
	}
	short, done := Text(text)
	return short, done.String(), len(text)-len(short) >= gain
}
