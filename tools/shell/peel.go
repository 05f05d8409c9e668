package shell

import (
	"strings"
)

// A wrapper runs the command that follows its options.
type wrapper struct {
	flags    string // short options without a value
	valued   string // short options with one, attached or in the next word
	long     string // long options, with the = of those that need a value
	operands int    // before the command
}

var wrappers = map[string]wrapper{
	"time":    {flags: "pv", valued: "f"},
	"nice":    {flags: "0123456789", valued: "n", long: "--adjustment="},
	"nohup":   {},
	"timeout": {flags: "v", valued: "ks", long: "--preserve-status --foreground --verbose --kill-after= --signal=", operands: 1},
	"stdbuf":  {valued: "ioe", long: "--input= --output= --error="},
	"setsid":  {flags: "cfw", long: "--ctty --fork --wait"},
	"command": {flags: "p"},
	"builtin": {},
	"exec":    {flags: "cl", valued: "a"},
	"env":     {flags: "iv", valued: "u", long: "--ignore-environment --unset= --debug"},
	"busybox": {},
	"toybox":  {},
}

// peel takes wrappers off a command. It returns no words when what they run is not to be seen, with the effect of that.
func (a *analysis) peel(words []word) (rest []word, e effect) {
	e = reads()
	for {
		name, known := program(words[0])
		w, ok := wrappers[name]
		if !ok || !words[0].literal || !known || len(words) == 1 {
			return words, e
		}
		if name == "command" && words[1].is("-v", "-V", "-pv", "-pV") {
			return words, e
		}
		next, clear := w.skip(words[1:])
		if !clear {
			return nil, unreadable("what " + name + " runs is not to be seen")
		}
		if name == "env" {
			next = a.environment(next)
		}
		if len(next) == 0 {
			return words, e // env alone shows the environment
		}
		words = next
	}
}

// skip returns the words after the options and operands; clear says that all of them were understood.
func (w wrapper) skip(words []word) (rest []word, clear bool) {
	for len(words) > 0 {
		o := words[0]
		if o.open {
			return nil, false
		}
		if !o.literal || !strings.HasPrefix(o.value, "-") || o.value == "-" && !strings.Contains(w.flags, "i") {
			break
		}
		words = words[1:]
		if o.value == "--" {
			break
		}
		if o.value == "-" { // env -
			continue
		}
		takes, ok := w.option(o.value)
		if !ok || takes && (len(words) == 0 || words[0].open) {
			return nil, false
		}
		if takes {
			words = words[1:]
		}
	}
	for range w.operands {
		if len(words) == 0 || words[0].open {
			return nil, false
		}
		words = words[1:]
	}
	return words, true
}

// option reads one option word: whether it takes the next word as its value, and whether it is known.
func (w wrapper) option(o string) (takesNext, ok bool) {
	if strings.HasPrefix(o, "--") {
		name, _, valued := strings.Cut(o, "=")
		if valued {
			name += "="
		}
		for known := range strings.FieldsSeq(w.long) {
			if known == name {
				return false, true
			}
		}
		return false, false
	}
	for i := 1; i < len(o); i++ {
		switch {
		case strings.IndexByte(w.valued, o[i]) >= 0:
			return i == len(o)-1, true
		case strings.IndexByte(w.flags, o[i]) < 0:
			return false, false
		}
	}
	return false, true
}

// environment takes the assignments of env off and adds those that count.
func (a *analysis) environment(words []word) []word {
	for len(words) > 0 {
		name, value, ok := strings.Cut(words[0].path, "=")
		if !ok || words[0].open {
			break
		}
		if !isLocale(name) || !words[0].literal || strings.Contains(value, "/") {
			a.variable(name, words[0].text())
		}
		words = words[1:]
	}
	return words
}
