package shell

import (
	"regexp"
	"slices"
	"strings"
)

// A reader is a command that only reads, except with certain options.
//
// An abbreviation of a long option counts as the option. A cluster of short options counts as each option whose letter it contains. All
// arguments of a reader with such options must be known, because a variable could contain one of the options.
type reader struct {
	short string // letters of short options with which the command writes, runs something or reads a script
	long  string
	plain bool // The command counts as a reader only if no argument can become an option at run time.
	// check finds what the other fields cannot express. It returns the reason why the command may do more than read, or "".
	check func(args []word) string
	// texts is the number of leading operands that are texts and not files: 0, 1 or allTexts.
	texts int
	lists string // letters of short options whose value is a file with the names of the files to read
	// private reports that the command shows data from outside the file system, such as processes or the environment.
	private bool
}

const allTexts = -1

var anyReader = reader{}

var readers = readingList()

func readingList() map[string]reader {
	list := map[string]reader{
		"grep": {texts: 1}, "egrep": {texts: 1}, "fgrep": {texts: 1}, "tr": {texts: allTexts},
		"echo": {texts: allTexts}, "true": {texts: allTexts}, "false": {texts: allTexts}, ":": {texts: allTexts}, "seq": {texts: allTexts},
		"sleep": {texts: allTexts}, "basename": {texts: allTexts}, "dirname": {texts: allTexts}, "expr": {texts: allTexts},
		"exit": {texts: allTexts}, "return": {texts: allTexts}, "break": {texts: allTexts}, "continue": {texts: allTexts},
		"which": {texts: allTexts}, "type": {texts: allTexts}, "command": {texts: allTexts}, "uname": {texts: allTexts},
		"ps": {private: true}, "pgrep": {private: true}, "env": {private: true, check: noOperands}, "printenv": {private: true},
		"printf": {texts: allTexts, check: checkPrintf}, "test": {check: checkTest}, "[": {check: checkTest}, "read": {check: checkRead},
		"date": {texts: allTexts, plain: true, check: checkDate}, "hostname": {plain: true, check: checkHostname},
		"sort": {short: "oTS", long: "--output --temporary-directory --compress-program"},
		"uniq": {plain: true, check: oneOperand}, "file": {short: "Cpf", long: "--compile --preserve-date --files-from"}, "base64": {short: "o", long: "--output"}, "tree": {short: "oR", long: "--output"},
		"rg": {texts: 1, short: "z", long: "--pre --hostname-bin --search-zip"}, "fd": {texts: 1, short: "xX", long: "--exec"}, "fdfind": {texts: 1, short: "xX", long: "--exec"},
		"find": {plain: true, check: checkFind}, "sed": {plain: true, check: checkSed, texts: 1}, "git": {plain: true, check: checkGit},
		"jq":  {texts: 1, short: "fL", long: "--from-file --library-path", check: checkJq},
		"awk": {plain: true, check: checkAwk, texts: 1}, "gawk": {plain: true, check: checkAwk, texts: 1}, "mawk": {plain: true, check: checkAwk, texts: 1},
	}
	for name := range strings.FieldsSeq("cat head tail wc ls cut nl rev tac fold fmt expand unexpand paste join comm diff cmp stat du df realpath readlink " +
		"pwd cd sum base32 od hexdump strings column numfmt factor whoami id " +
		"groups uptime nproc arch free lscpu lsblk tty locale cal getconf") {
		list[name] = anyReader
	}
	for name := range strings.FieldsSeq("md5sum sha1sum sha224sum sha256sum sha384sum sha512sum cksum b2sum") {
		list[name] = reader{lists: "c"}
	}
	return list
}

// refuses returns the reason why a command may do more than read, or "" when it only reads.
func (r reader) refuses(args []word) string {
	careful := r.plain || r.short != "" || r.long != ""
	ended := false
	for _, w := range args {
		switch {
		case ended:
		case careful && w.open:
			return "it may contain options: " + w.source
		case w.literal && w.value == "--":
			ended = !r.plain // For a plain reader, the function in check also handles the operands after --.
		case strings.HasPrefix(w.value, "--"):
			if r.names(w.value) {
				return w.value + " does more than read"
			}
		case strings.HasPrefix(w.value, "-") && strings.ContainsAny(w.value, r.short):
			return w.value + " does more than read"
		}
	}
	if r.check != nil {
		return r.check(args)
	}
	return ""
}

// names reports whether option is one of the long options with which the command does more, or an abbreviation of one.
func (r reader) names(option string) bool {
	option, _, _ = strings.Cut(option, "=")
	for refused := range strings.FieldsSeq(r.long) {
		if strings.HasPrefix(refused, option) || strings.HasPrefix(option, refused) {
			return true
		}
	}
	return false
}

// outside reports whether one of the files in the arguments may be outside the working directory.
func (r reader) outside(args []word, dir string) bool {
	texts := r.texts
	for _, w := range args {
		option := strings.HasPrefix(w.value, "-") && w.value != "-"
		if r.namesFiles(w) {
			return true
		}
		if option && texts == 1 && (!w.literal || strings.ContainsAny(w.value, "ef")) {
			texts = 0 // An option contains the pattern, or the file with the patterns, so no operand is the pattern.
		}
		switch {
		case texts == allTexts:
			// The value of a variable may be a secret from the environment.
			if !w.literal && strings.Contains(w.path, "$") || strings.HasPrefix(w.path, "~") {
				return true
			}
		case texts == 1 && !option:
			texts = 0
			if !w.literal {
				return true
			}
		case !w.isBelow(dir):
			return true
		}
	}
	return false
}

// listOptions are prefixes of long options whose value is a file with the names of the files to read. wc, sort, du, find and the checksum
// commands have such options.
var listOptions = strings.Fields("--files0 -files0-from --ch")

// namesFiles reports whether a word is an option whose value is a file with the names of the files to read.
func (r reader) namesFiles(w word) bool {
	short := isFlag(w) && !strings.HasPrefix(w.value, "--") && strings.ContainsAny(w.value, r.lists)
	return short || slices.ContainsFunc(listOptions, func(o string) bool { return strings.HasPrefix(w.value, o) })
}

const doesMore = "it can do more than read"

func noOperands(args []word) string {
	if len(args) > 0 {
		return doesMore
	}
	return ""
}

// oneOperand returns a reason when there is a second operand. It is the check of commands that write to their second operand.
func oneOperand(args []word) string {
	operands := 0
	for _, w := range args {
		if w.many {
			return doesMore
		}
		if !w.isOption() {
			operands++
		}
	}
	if operands > 1 {
		return doesMore
	}
	return ""
}

// checkPrintf rejects the two ways in which printf sets a variable: the option -v, and the conversion n in the format.
func checkPrintf(args []word) string {
	if len(args) > 0 && args[0].is("--") {
		args = args[1:]
	} else if len(args) > 0 && args[0].isOption() {
		return doesMore
	}
	if len(args) > 0 && (!args[0].literal || settingFormat.MatchString(args[0].value)) {
		return doesMore
	}
	return ""
}

var settingFormat = regexp.MustCompile(`%[^a-zA-Z%]*[hlLjzt]*n`)

// checkRead accepts the builtin read only when it sets variables with lower-case names and has no option except -r.
func checkRead(args []word) string {
	for _, w := range args {
		own := w.literal && !strings.ContainsFunc(w.value, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') })
		if !own && !w.is("-r") {
			return doesMore
		}
	}
	return ""
}

// checkJq rejects jq programs that show the environment or load other programs.
func checkJq(args []word) string {
	if slices.ContainsFunc(args, func(w word) bool { return jqLoads.MatchString(w.value) }) {
		return doesMore
	}
	return ""
}

var jqLoads = regexp.MustCompile(`\$ENV\b|(^|[^.\w"])(env|import|include)\b`)

var testUnary = strings.Fields("-a -b -c -d -e -f -g -h -k -n -p -r -s -t -u -w -x -z -G -L -N -O -S")

var testBinary = strings.Fields("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef")

// checkTest accepts only a test whose operators are all literal. It rejects -v, because bash evaluates an index in the variable name after
// it.
func checkTest(args []word) string {
	if n := len(args); n > 0 && args[n-1].is("]") {
		args = args[:n-1]
	}
	for len(args) > 0 && args[0].is("!") {
		args = args[1:]
	}
	for _, w := range args {
		if w.many {
			return doesMore
		}
	}
	switch {
	case len(args) <= 1:
		return ""
	case len(args) == 2 && args[0].is(testUnary...), len(args) == 3 && args[1].is(testBinary...):
		return ""
	}
	return doesMore
}

// checkDate rejects options of date that set the clock or read a file.
func checkDate(args []word) string {
	valued := false
	for _, w := range args {
		switch {
		case valued:
			valued = false
		case !w.literal:
			return doesMore
		case w.is("-d", "--date", "-r", "--reference"):
			valued = true
		case strings.HasPrefix(w.value, "--s"), strings.HasPrefix(w.value, "--f"): // --set sets the clock. --file shows the contents of a file in error messages.
			return doesMore
		case strings.HasPrefix(w.value, "--"), strings.HasPrefix(w.value, "-I"), strings.HasPrefix(w.value, "+"), w.is("-u", "-R"):
		default:
			return doesMore
		}
	}
	return ""
}

func checkHostname(args []word) string {
	if slices.ContainsFunc(args, func(w word) bool { return !w.is("-f", "-s", "-i", "-I", "-d", "-A", "--fqdn", "--short") }) {
		return doesMore
	}
	return ""
}

// findActions are the actions of find that do more than print.
var findActions = strings.Fields("-delete -exec -execdir -ok -okdir -fprint -fprint0 -fprintf -fls")

func checkFind(args []word) string {
	for _, w := range args {
		if w.open || w.is(findActions...) {
			return w.source + " does more than read"
		}
	}
	return ""
}
