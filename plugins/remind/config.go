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

// A Reminder is a text, and the conditions for adding it to a result. All conditions must be true. A reminder without conditions matches
// every call.
type Reminder struct {
	Name      string        `yaml:"name" required:"true" unique:"true" help:"name of the reminder in the metadata of results, at most 64 bytes, without commas"`
	Text      string        `yaml:"text" required:"true" help:"text that the model reads, at most 4 KiB"`
	Tools     []string      `yaml:"tools" format:"glob" help:"globs on tool ids; an empty list matches every tool"`
	Arguments string        `yaml:"arguments" format:"regexp" help:"regular expression that the canonical JSON of the arguments must match; if empty, all arguments match"`
	Result    string        `yaml:"result" format:"regexp" help:"regular expression that the text for the model must match; if empty, every text matches"`
	On        On            `yaml:"on" oneof:"SUCCEEDED FAILED" help:"outcome of the calls; if empty, both"`
	Cooldown  time.Duration `yaml:"cooldown" default:"0" min:"0" max:"30d" help:"time after a reminder in which it is not added again in the same run"`
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
