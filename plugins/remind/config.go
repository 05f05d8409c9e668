package remind

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toold-dev/toold/setting"
)

// A Config lists the reminders.
type Config struct {
	Reminders []Reminder `yaml:"reminders"`
}

// A Reminder is a text and the conditions for adding it to a result. All conditions must hold. A reminder without conditions matches every
// call.
type Reminder struct {
	Name      string        `yaml:"name" required:"true" unique:"true" help:"name in the metadata of results, at most 64 bytes, without commas"`
	Text      string        `yaml:"text" required:"true" help:"text that the model reads, at most 4 KiB"`
	Tools     []string      `yaml:"tools" format:"glob" help:"globs on tool ids; none is all"`
	Arguments string        `yaml:"arguments" format:"regexp" help:"regular expression for the canonical text of the arguments; empty is any"`
	Result    string        `yaml:"result" format:"regexp" help:"regular expression for the text that the model will read; empty is any"`
	On        On            `yaml:"on" oneof:"SUCCEEDED FAILED" help:"outcome of the calls; empty is both"`
	Cooldown  time.Duration `yaml:"cooldown" default:"0" min:"0" max:"30d" help:"time for which it is silent in a run after it spoke"`
}

// On is an outcome of a call.
type On string

// The outcomes that can be distinguished.
const (
	OnSucceeded On = "SUCCEEDED"
	OnFailed    On = "FAILED"
)

// Limits of a reminder's texts.
const (
	maxReminders = 100
	maxText      = 4 << 10
)

type rule struct {
	Reminder
	arguments, result *regexp.Regexp // nil matches everything
}

// Check implements [setting.Checker].
func (c *Config) Check() (wrong setting.Problems) {
	if len(c.Reminders) > maxReminders {
		wrong.Add("reminders", "there are %d; at most %d", len(c.Reminders), maxReminders)
	}
	return wrong
}

// Check implements [setting.Checker].
func (m *Reminder) Check() (wrong setting.Problems) {
	if len(m.Name) > 64 || strings.ContainsAny(m.Name, ",\n") {
		wrong.Add("name", "want a name of at most 64 bytes without commas")
	}
	if strings.TrimSpace(m.Text) == "" || len(m.Text) > maxText || !utf8.ValidString(m.Text) {
		wrong.Add("text", "want 1 to %d bytes of UTF-8", maxText)
	}
	return wrong
}

// compile compiles reminders, or returns everything that is wrong.
func compile(reminders []Reminder) ([]rule, error) {
	rules := make([]rule, len(reminders))
	for i, m := range reminders {
		rules[i] = rule{m, compiled(m.Arguments), compiled(m.Result)}
	}
	return rules, setting.Check(Config{reminders}).Err()
}

// compiled returns nil for an empty or invalid text.
func compiled(text string) *regexp.Regexp {
	if text == "" {
		return nil
	}
	re, _ := regexp.Compile(text)
	return re
}
