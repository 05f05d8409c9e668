// Package compact shortens the text of results before a model reads it, and adds a note about what it has removed.
//
// It removes what is meant for a terminal: escape sequences, and earlier states of a line that the program has overwritten. It replaces
// repeated lines by one line with a count. It changes nothing else, and the result is never longer than the original text.
package compact

import (
	"sync/atomic"

	"github.com/toold-dev/toold/setting"
	"github.com/toold-dev/toold/tool"
)

// A Config says which tools' results are shortened.
type Config struct {
	Tools []string `yaml:"tools" format:"glob" help:"globs on the ids of tools whose messages are made shorter for models" see:"plugins/compact.md"`
	From  int      `yaml:"from" default:"4096" min:"0" max:"1048576" help:"smallest message in bytes that is made shorter"`
}

// A Compactor shortens texts. Its methods may be called concurrently.
type Compactor struct{ cfg atomic.Pointer[Config] }

// New returns a compactor, or an error when the configuration is invalid.
func New(cfg Config) (*Compactor, error) {
	c := &Compactor{}
	return c, c.Swap(cfg)
}

// Swap replaces the configuration. On an error it keeps the old one.
func (c *Compactor) Swap(cfg Config) error {
	setting.Fill(&cfg)
	if err := setting.Check(cfg).Err(); err != nil {
		return err
	}
	c.cfg.Store(&cfg)
	return nil
}

// gain is the minimum saving in bytes; for a smaller one the text stays unchanged. It is larger than any note.
const gain = 512

// Compact returns a shorter text of a tool's result and a note about the changes. ok is false when the caller must keep the original text.
func (c *Compactor) Compact(id, text string) (short, did string, ok bool) {
	cfg := c.cfg.Load()
	if len(text) < max(cfg.From, gain) || !tool.AnyGlob(cfg.Tools, id) {
		return "", "", false
	}
	short, done := Text(text)
	return short, done.String(), len(text)-len(short) >= gain
}
