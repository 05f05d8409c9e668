package shell

import (
	"strings"
)

// A wrapper is a command, such as nice, that runs the command after its own options.
type wrapper struct {
	flags    string // short options without a value
	valued   string // short options with a value, which is attached or follows as the next word
	long     string // long options; an = after an option means that it needs a value
	operands int    // number of the wrapper's own operands before the command
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
	"env":     {},
	"busybox": {},
	"toybox":  {},
}

// peel removes wrappers from a command. When it cannot determine which command a wrapper runs, it returns no words and an effect that says
// so.
func (a *analysis) peel(words []word) (rest []word, e effect) {
	e = reads()
	for {
		name, known := program(words[0])
		w, ok := wrappers[name]
		if !ok || !words[0].literal || !known || len(words) == 1 {
			return words, e
		}
		if name == "nohup" {
			e = e.and(changes("on a terminal nohup appends to nohup.out"))
		}
		if name == "command" && words[1].is("-v", "-V", "-pv", "-pV") {
			return words, e
		}
		var next []word
		var clear bool
		if name == "env" {
			next, clear = a.env(words[1:], &e)
		} else {
			next, clear = w.skip(words[1:])
		}
		if !clear {
			return nil, unreadable("the command that " + name + " runs cannot be determined")
		}
		if len(next) == 0 {
			return words, e // env without a command prints the environment, so it is not a wrapper here.
		}
		words = next
	}
}

// skip returns the words after the wrapper's options and operands. clear reports that skip understood all of them.
func (w wrapper) skip(words []word) (rest []word, clear bool) {
	for len(words) > 0 {
		o := words[0]
		if o.open {
			return nil, false
		}
		if !o.literal || !strings.HasPrefix(o.value, "-") || o.value == "-" {
			break
		}
		words = words[1:]
		if o.value == "--" {
			break
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

// option parses one option word. takesNext reports that the next word is the value of the option. ok reports that the option is known.
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

// env removes the options and the assignments of the command env, and adds their effect to e. clear reports that env understood all of
// them.
func (a *analysis) env(words []word, e *effect) (rest []word, clear bool) {
	for len(words) > 0 && isFlag(words[0]) {
		o := words[0]
		words = words[1:]
		switch {
		case !o.literal:
			return nil, false
		case o.is("--"):
			return a.environment(words), true
		case o.is("-v", "--debug"):
			continue
		case o.is("-", "-i", "--ignore-environment"):
			*e = e.and(changes("env removes variables"))
			continue
		}
		option, value := envOption(o.value)
		if option == o.value { // The value is not attached, so it is the next word.
			if len(words) == 0 || !words[0].literal {
				return nil, false
			}
			value, words = words[0].value, words[1:]
		}
		switch option {
		case "-u", "--unset":
			*e = e.and(changes("env removes variables"))
		case "-C", "--chdir":
			*e = e.and(effect{safety: reads().safety, outside: !literals(value)[0].isBelow(a.dir)})
			if a.bases = append(a.bases, value); len(a.bases) > maxBases {
				return nil, false
			}
		case "-S", "--split-string":
			if strings.ContainsAny(value, `'"\$#`) || !a.budget.spend(literals(value)) {
				return nil, false
			}
			words = append(literals(strings.Fields(value)...), words...)
		default:
			return nil, false
		}
	}
	return a.environment(words), true
}

// envOption splits an option of env into the option and its attached value.
func envOption(text string) (option, value string) {
	for _, known := range []string{"-u", "-C", "-S", "--unset", "--chdir", "--split-string"} {
		if value, ok := strings.CutPrefix(text, known); ok && strings.HasPrefix(known, "--") == strings.HasPrefix(value, "=") {
			return known, strings.TrimPrefix(value, "=")
		}
	}
	return text, ""
}

// environment removes the assignments of env. It adds a part for each variable that programs may interpret.
func (a *analysis) environment(words []word) []word {
	for len(words) > 0 {
		name, value, ok := strings.Cut(words[0].path, "=")
		if !ok || words[0].open {
			break
		}
		if !isLocale(name) || !words[0].literal || strings.Contains(value, "/") {
			a.variable(name, word{value: value, literal: words[0].literal}, words[0].text())
		}
		words = words[1:]
	}
	return words
}
