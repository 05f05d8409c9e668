// Package redact removes secrets from everything that a call publishes: progress, activities, output, results, errors and log lines.
//
// It recognizes a secret in three ways:
//
//   - by its value, in common forms: unchanged, in JSON, in URLs, in hex, in base64
//   - by the shape of a well-known token
//   - by a pattern of the operator
//
// The text [redacted] or [redacted:name] replaces the secret. The time is linear in the length of any text. An output stream is treated as
// one text, whatever its chunks. The end of a chunk that may begin a secret is retained until the next chunk or the end of the call.
//
// The package does not change IDs, arguments, cursors, or data with a digest. A [Redactor] is a [hook.Filter] and a [hook.Scrubber].
package redact

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/toold-dev/toold/setting"
)

// A Config lists the secrets. The zero Config has none.
type Config struct {
	Values   []Value   `yaml:"values" help:"secrets that toold removes from everything that a call publishes" see:"redact.md"`
	Tokens   bool      `yaml:"tokens" help:"also remove texts that have the form of well-known tokens"`
	Patterns []Pattern `yaml:"patterns" help:"regular expressions of other texts to remove"`
}

// A Value is a known secret. A daemon reads Env and File into Text.
type Value struct {
	Name string `yaml:"name" help:"name that is shown in place of the secret; if empty, the text says only that a secret was removed"`
	Env  string `yaml:"env" help:"variable of the daemon's environment that contains the secret"`
	File string `yaml:"file" help:"file that contains the secret; line ends at its end are ignored"`
	Text string `yaml:"value" secret:"true" help:"the secret itself, 8 bytes to 16 KiB"`
}

// Check implements [setting.Checker].
func (v *Value) Check() (wrong setting.Problems) {
	if setting.Given(v.Env, v.File, v.Text) != 1 {
		wrong.Add("", "needs one of env, file and value")
	}
	return wrong
}

// A Pattern is a Go regular expression. It matches only within a line. A line longer than 16 KiB is matched in pieces of that size.
type Pattern struct {
	Name string `yaml:"name" help:"name that is shown in place of a match; if empty, the text says only that something was removed"`
	Expr string `yaml:"expr" required:"true" help:"regular expression of Go's syntax, matched within lines"`
}

// Limits of a value. A shorter value is refused, because it would match ordinary words.
const (
	MinValue = 8
	MaxValue = 16 << 10
)

const markBegin = "[redacted"

// mark returns the text that replaces a secret.
func mark(name string) string {
	if name == "" {
		return markBegin + "]"
	}
	return markBegin + ":" + name + "]"
}

var validName = regexp.MustCompile(`^[A-Za-z0-9_.-]{0,64}$`)

// A Redactor removes secrets. It is immutable, and its methods may be called concurrently.
type Redactor struct {
	cfg      Config
	values   values
	tokens   bool
	hot      [256]bool // bytes with which a secret can begin
	pairs    pairs     // pairs of bytes with which a secret can begin
	patterns []pattern
}

type pattern struct {
	expr *regexp.Regexp
	mark []byte
}

// New returns a Redactor. An error names the invalid setting and never contains a value.
func New(cfg Config) (*Redactor, error) {
	r := &Redactor{cfg: cfg, tokens: cfg.Tokens}
	var problems []error
	for i, v := range cfg.Values {
		if err := checkValue(v); err != nil {
			problems = append(problems, fmt.Errorf("values: entry %d: %w", i+1, err))
			continue
		}
		r.values.add(v)
	}
	for i, p := range cfg.Patterns {
		expr, err := regexp.Compile(p.Expr)
		switch {
		case !validName.MatchString(p.Name):
			err = errName
		case err == nil && expr.MatchString(""):
			err = errors.New("matches the empty text")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("patterns: entry %d: %w", i+1, err))
			continue
		}
		r.patterns = append(r.patterns, pattern{expr, []byte(mark(p.Name))})
	}
	r.values.index()
	r.hot, r.pairs = r.values.first, r.values.pairs
	if cfg.Tokens {
		for _, t := range tokens {
			r.hot[t.anchor[0]] = true
			r.pairs.add(t.anchor[0], t.anchor[1])
		}
	}
	return r, errors.Join(problems...)
}

var errName = errors.New("the name must have at most 64 letters, digits, _, . and -")

func checkValue(v Value) error {
	switch {
	case !validName.MatchString(v.Name):
		return errName
	case len(v.Text) < MinValue:
		return fmt.Errorf("has %d bytes: fewer than %d would also remove ordinary text", len(v.Text), MinValue)
	case len(v.Text) > MaxValue:
		return fmt.Errorf("has %d bytes; at most %d are allowed", len(v.Text), MaxValue)
	case strings.Contains(v.Text, markBegin):
		return fmt.Errorf("contains %s, which replaces secrets", markBegin)
	}
	return nil
}
