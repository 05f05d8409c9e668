// Package compact makes the text of results shorter before a model reads it, and says what it left out.
//
// What was drawn for a terminal goes: escape sequences, and the states of a line that was written over. Lines that repeat
// are folded. Nothing else changes, and what the model reads is never longer than the text as it was.
package compact

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync/atomic"
)

// DefaultFrom is how long a text has to be.
const DefaultFrom = 4 << 10

// A Config says whose results are made shorter.
type Config struct {
	Tools []string // globs on tool ids; none: no tool's
	From  int      // bytes; shorter texts stay as they are; 0 means DefaultFrom
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
	var problems []error
	for _, g := range cfg.Tools {
		if _, err := path.Match(g, ""); err != nil || g == "" {
			problems = append(problems, fmt.Errorf("tools: %q is not a pattern of *, ? and [classes]", g))
		}
	}
	if cfg.From < 0 || cfg.From > 1<<20 {
		problems = append(problems, fmt.Errorf("from: %d is not between 0 and %d", cfg.From, 1<<20))
	}
	cfg.From = cmp.Or(cfg.From, DefaultFrom)
	if len(problems) == 0 {
		c.cfg.Store(&cfg)
	}
	return errors.Join(problems...)
}

// gain is what has to be won for it to be worth a note, in bytes. No note is as long.
const gain = 512

// Compact returns a shorter text of a tool's result and what was done to it; ok is false when it stays as it is.
func (c *Compactor) Compact(tool, text string) (short, did string, ok bool) {
	cfg := c.cfg.Load()
	if len(text) < max(cfg.From, gain) || !slices.ContainsFunc(cfg.Tools, func(glob string) bool { is, _ := path.Match(glob, tool); return is }) {
		return "", "", false
	}
	short, done := Text(text)
	return short, done.String(), len(text)-len(short) >= gain
}
