package remind

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// A Config is the reminders there are.
type Config struct {
	Reminders []Reminder
}

// A Reminder is a text and of which results. All that is said must hold; a reminder that says nothing fits every call.
type Reminder struct {
	Name      string        // required, once; told in the metadata of results
	Text      string        // what the model reads; required, at most 4 KiB
	Tools     []string      // globs on tool ids
	Arguments string        // regular expression, matched in the canonical text of the arguments
	Result    string        // regular expression, matched in what the model is about to read
	On        On            // empty: both
	Cooldown  time.Duration // for which it is silent in a run; 0: it speaks each time
}

// On is how a call ended.
type On string

// The ends that can be told apart.
const (
	OnSucceeded On = "SUCCEEDED"
	OnFailed    On = "FAILED"
)

// The most that a reminder may say.
const (
	maxReminders = 100
	maxText      = 4 << 10
	maxCooldown  = 30 * 24 * time.Hour
)

type rule struct {
	Reminder
	arguments, result *regexp.Regexp // nil: any
}

// compile says everything that is wrong.
func compile(reminders []Reminder) ([]rule, error) {
	var problems []error
	if len(reminders) > maxReminders {
		problems = append(problems, fmt.Errorf("%d reminders; at most %d", len(reminders), maxReminders))
	}
	seen := map[string]bool{}
	rules := make([]rule, len(reminders))
	for i, m := range reminders {
		wrong := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("reminder %d (%q): %s", i+1, m.Name, fmt.Sprintf(format, args...)))
		}
		if m.Name == "" || len(m.Name) > 64 || strings.ContainsAny(m.Name, ",\n") {
			wrong("want a name of at most 64 bytes without commas")
		}
		if seen[m.Name] {
			wrong("the name stands twice")
		}
		seen[m.Name] = true
		if strings.TrimSpace(m.Text) == "" || len(m.Text) > maxText || !utf8.ValidString(m.Text) {
			wrong("text: want 1 to %d bytes of UTF-8", maxText)
		}
		for _, g := range m.Tools {
			if _, err := path.Match(g, ""); err != nil || g == "" {
				wrong("tools: %q is not a pattern of *, ? and [classes]", g)
			}
		}
		if m.On != "" && m.On != OnSucceeded && m.On != OnFailed {
			wrong("on: %q is not SUCCEEDED or FAILED", m.On)
		}
		if m.Cooldown < 0 || m.Cooldown > maxCooldown {
			wrong("cooldown: %v is not between 0 and %v", m.Cooldown, maxCooldown)
		}
		expr := func(name, text string) *regexp.Regexp {
			if text == "" {
				return nil
			}
			re, err := regexp.Compile(text)
			if err != nil {
				wrong("%s: %v", name, err)
			}
			return re
		}
		rules[i] = rule{Reminder: m, arguments: expr("arguments", m.Arguments), result: expr("result", m.Result)}
	}
	return rules, errors.Join(problems...)
}
