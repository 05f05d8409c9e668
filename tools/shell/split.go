package shell

import (
	"path"
	"slices"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// A Part is one action of a command: a simple command, a redirect that writes, or an assignment that changes what commands do.
type Part struct {
	// Text is the simple command as rules compare it. It contains no wrappers (env, time, nice, …), harmless assignments or redirects.
	// One space separates words, and each word has its shortest quoting: "git push origin main". The text of a redirect is "> file", of an
	// assignment "PATH=/x", of a function "name()". A rule that allows is compared only with Text.
	Text string
	// Also contains other spellings of the same part, for example with its wrappers, or without the directory of its first word. A rule
	// that denies or asks is compared with these too.
	Also []string
	// Safety is the worst known effect of the part. A part with an unknown effect is SafetyMutating.
	Safety tool.Safety
	Reason string // short reason for Safety; may be empty
	// Unknown reports that what the part runs is known only at run time, or that Split did not understand it.
	Unknown bool
}

// Spellings returns Text and all of Also.
func (p Part) Spellings() []string { return append([]string{p.Text}, p.Also...) }

// Split returns the parts of a command text, each text once. It includes parts in substitutions, functions and inner shells.
//
// ok reports that the list of parts is complete. When ok is false, Split did not understand some of the text, or some of the parts are
// known only at run time. Then a rule that allows single commands must not allow the text. A rule that denies can only check the parts that
// were found.
func Split(command string) (parts []Part, ok bool) {
	a := analyse(command, "")
	return a.parts, !a.worst.opaque
}

// An effect is what a part does.
type effect struct {
	safety tool.Safety
	reason string
	// The part may read data from outside the working directory.
	outside bool
	// The command may run more than its parts show.
	opaque bool
	// The program is not in any list, and may run a command that its arguments contain.
	runs bool
}

func reads() effect                      { return effect{safety: tool.SafetyReadOnly} }
func changes(reason string) effect       { return effect{safety: tool.SafetyMutating, reason: reason} }
func reachesOut(reason string) effect    { return effect{safety: tool.SafetyNetwork, reason: reason} }
func destroys(reason string) effect      { return effect{safety: tool.SafetyDestructive, reason: reason} }
func (e effect) worse(other effect) bool { return rank(e.safety) > rank(other.safety) }

// evaluates returns the effect of a construct in which bash evaluates the value of a variable, including substitutions in that value.
func evaluates() effect {
	return effect{safety: tool.SafetyMutating, reason: "an expression evaluates the value of a variable", opaque: true}
}

func unreadable(reason string) effect {
	return effect{safety: tool.SafetyDestructive, reason: reason, outside: true, opaque: true}
}

func rank(s tool.Safety) int {
	return slices.Index([]tool.Safety{tool.SafetyReadOnly, tool.SafetyMutating, tool.SafetyNetwork, tool.SafetyDestructive}, s)
}

// An analysis contains the effects of a command text and its parts.
type analysis struct {
	dir    string
	bases  []string // directories to which the text may change the working directory
	budget budget
	depth  int

	parts []Part
	index map[string]int // position in parts, by text
	worst effect
	// stdin is the text of the here-document that the current command reads. Nil means that its input is unknown.
	stdin *string
}

// analyse analyses a command that would run in dir. An empty dir means that the directory is unknown. analyse always returns, and gives the
// same answer for the same text.
func analyse(command, dir string) *analysis {
	a := &analysis{dir: dir, budget: budget{maxText, maxNodes}, index: map[string]int{}, worst: reads()}
	a.text(command)
	return a
}

// text adds the parts of a text that bash runs.
func (a *analysis) text(command string) {
	file, err := a.budget.parse(command)
	if err != nil {
		a.note("", unreadable(err.Error()))
		return
	}
	a.findDirectories(file, command)
	a.walk(file, command)
}

// inner adds the parts of a text inside the command that another shell runs.
func (a *analysis) inner(command string) {
	if a.depth >= maxInner {
		a.note("", unreadable(errTooComplex.Error()))
		return
	}
	a.depth++
	a.text(command)
	a.depth--
}

// note adds an effect to the analysis. Unless text is empty, it also adds a part with this effect.
func (a *analysis) note(text string, e effect, also ...string) {
	a.worst = a.worst.and(e)
	if text == "" {
		return
	}
	i, known := a.index[text]
	if !known {
		i = len(a.parts)
		a.index[text] = i
		a.parts = append(a.parts, Part{Text: text, Safety: e.safety, Reason: e.reason})
	}
	p := &a.parts[i]
	if rank(e.safety) > rank(p.Safety) {
		p.Safety, p.Reason = e.safety, e.reason
	}
	p.Unknown = p.Unknown || e.opaque
	for _, other := range also {
		if !slices.Contains(p.Spellings(), other) {
			p.Also = append(p.Also, other)
		}
	}
}

func textOf(words []word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text()
	}
	return strings.Join(texts, " ")
}

// programDirs are the directories of the system's programs. For a program in one of these directories, the lists in this package determine
// the effect by the name alone.
var programDirs = []string{"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin"}

// program returns the name of the program that a command word starts. known is false when the word contains a directory outside
// programDirs.
func program(w word) (name string, known bool) {
	dir, name := path.Split(w.value)
	return name, dir == "" || slices.Contains(programDirs, strings.TrimSuffix(dir, "/"))
}

// command adds a simple command.
func (a *analysis) command(words []word) {
	if !a.budget.spend(words) {
		a.note("", unreadable(errTooComplex.Error()))
		return
	}
	rest, e := a.peel(words)
	var also []string
	if len(rest) > 0 {
		e = e.and(a.judge(rest))
		also, e = a.otherSpellings(rest, e)
	} else {
		rest = words
	}
	text, whole := textOf(rest), textOf(words)
	if name, known := program(rest[0]); rest[0].literal && name != rest[0].value {
		short := textOf(append(literals(name), rest[1:]...))
		if known {
			text, short = short, text
		}
		also = append(also, short)
		if _, bad := destructive[name]; bad && !known {
			a.note(short, e) // A program in another directory may still be the destructive program of that name.
		}
	}
	if whole != text {
		also = append(also, whole)
	}
	a.note(text, e, also...)
}

// maxOther is the maximum number of other spellings. Spellings with wrappers or without directories do not count.
const maxOther = 8

// otherSpellings returns other readings of a command, for rules that deny or ask. These are the command without the options before its
// subcommand, and commands that an unknown program may run from its arguments.
func (a *analysis) otherSpellings(words []word, e effect) (also []string, _ effect) {
	name, _ := program(words[0])
	if _, reads := readers[name]; !reads || name == "git" {
		for i := 2; i < len(words) && i <= maxOther && (isFlag(words[i-1]) || isFlag(words[i-2]) && i > 2); i++ {
			also = append(also, textOf(append(literals(name), words[i:]...)))
		}
	}
	_, read := readers[name]
	if !e.runs && (read || name == "git" || slices.Contains(shells, name) || slices.Contains(builtins, name)) {
		return also, e // Other functions analyse the texts that these commands run.
	}
	for _, w := range words[1:] {
		if w.literal {
			also = append(also, textsIn(w.value)...)
		}
	}
	if len(also) > maxTexts { // Texts beyond the limit are not analysed, so they may do anything.
		also, e.opaque = also[:maxTexts], true
	}
	if e.runs || carriers[name] {
		inner, opaque := a.operands(words[1:])
		e.opaque = e.opaque || opaque && e.runs
		also = append(also, inner...)
	}
	return also, e
}

// maxTexts is the maximum number of texts inside words that are analysed as other spellings of a command.
const maxTexts = 32

// carriers run the command in their operands on another machine, in a container or from a package.
var carriers = set("ssh mosh autossh docker podman kubectl npx bunx uvx pnpx")

// textsIn returns the texts in one word that may be a command with arguments. These are the word itself, and the rest of the word after
// certain signs, as in --checkpoint-action=exec='rm x', +'!rm x' and 'execute(rm x)'.
func textsIn(value string) (texts []string) {
	if !strings.Contains(value, " ") {
		return nil
	}
	texts = []string{value}
	const signs = "=:!+({;|&`\"'"
	for i := 1; i <= len(value) && len(texts) <= maxTexts; i++ {
		if strings.IndexByte(signs, value[i-1]) < 0 {
			continue
		}
		if text := strings.TrimLeft(value[i:], signs+" "); strings.Contains(text, " ") && text != texts[len(texts)-1] {
			texts = append(texts, text)
		}
	}
	return texts
}

func isFlag(w word) bool { return strings.HasPrefix(w.value, "-") }

// operands analyses the words of an unknown program as commands that it may run. A command may start at each of the first two operands, and
// at each name of a shell, an interpreter or a destructive command. opaque reports that one of these commands cannot be fully read.
func (a *analysis) operands(words []word) (spellings []string, opaque bool) {
	inner := &analysis{dir: a.dir, bases: a.bases, budget: a.budget, depth: a.depth + 1, index: map[string]int{}, worst: reads()}
	if inner.depth > maxInner {
		return nil, false
	}
	plain := 0
	for i, w := range words {
		if !w.literal || isFlag(w) || w.is(builtins...) {
			continue
		}
		name, _ := program(w)
		_, bad := destructive[name]
		_, interprets := interpreters[name]
		if plain++; plain <= 2 || bad || interprets || slices.Contains(shells, name) {
			inner.command(words[i:])
		}
		if len(inner.parts) > maxOther { // Operands beyond the limit are not analysed, so they may do anything.
			opaque = true
			break
		}
	}
	a.budget = inner.budget
	for _, p := range inner.parts {
		spellings = append(spellings, p.Spellings()...)
	}
	return spellings, opaque || inner.worst.opaque
}

// and returns the combined effect of e and other.
func (e effect) and(other effect) effect {
	out := e
	if other.worse(e) || e.reason == "" && e.safety == other.safety {
		out = other
	}
	out.outside, out.opaque, out.runs = e.outside || other.outside, e.opaque || other.opaque, e.runs || other.runs
	return out
}
