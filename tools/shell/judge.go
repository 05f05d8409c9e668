package shell

import (
	"path"
	"slices"
	"strings"
)

// nameLength is the maximum length of a command's name in a reason.
const nameLength = 64

// judge returns the effect of a simple command without wrappers. When the command passes texts to a shell, judge also adds the parts of
// these texts.
func (a *analysis) judge(words []word) effect {
	if !words[0].literal {
		return unreadable("the program is known only at run time")
	}
	name, known := program(words[0])
	args := words[1:]
	if known {
		if e, ok := a.builtin(name, args); ok {
			return e
		}
		if reader, ok := readers[name]; ok {
			if why := reader.refuses(args); why == "" {
				return effect{safety: reads().safety, outside: reader.private || reader.outside(args, a.dir)}
			}
		}
		if asksVersion(name, args) {
			return reads()
		}
	}
	if e, ok := a.runner(name, args); ok {
		return e
	}
	if why, ok := destructive[name]; ok || strings.HasPrefix(name, "mkfs.") {
		if !ok {
			why = destructive["mkfs"]
		}
		return destroys(name + " " + why)
	}
	if e, ok := a.special(name, args); ok {
		return e
	}
	if networking[name] {
		return a.download(name, args)
	}
	if writers[name] {
		return a.writer(name, args)
	}
	if slices.Contains(namers, name) && slices.ContainsFunc(args, func(w word) bool { return !w.literal || strings.Contains(w.value, "[") }) {
		return evaluates()
	}
	e := changes("the effect of " + clip(name, nameLength) + " is unknown")
	e.runs = true
	return e
}

// namers are builtins with names of variables as arguments. After a name, bash evaluates an index in brackets, which may contain a command.
var namers = []string{"read", "printf", "test", "[", "unset", "mapfile", "readarray", "getopts", "wait"}

// special returns the effect of a command when its effect depends on its arguments, not only on its name. It returns false for other
// commands.
func (a *analysis) special(name string, args []word) (effect, bool) {
	switch name {
	case "git":
		return gitEffect(args), true
	case "find":
		return a.find(args), true
	case "xargs":
		return a.xargs(args), true
	case "rsync":
		return a.rsync(args), true
	case "sed":
		return a.sed(args), true
	case "tee":
		return a.tee(args), true
	case "systemctl":
		return systemctl(args), true
	case "crontab":
		return crontab(args), true
	case "npm", "yarn", "pnpm", "bun", "pip", "pip3", "uv", "pipx", "poetry", "conda", "mamba", "gem", "bundle", "composer", "cargo", "go":
		return packages(args), true
	case "apt", "apt-get", "aptitude", "dnf", "yum", "apk", "pacman", "zypper", "brew", "snap", "flatpak", "dpkg", "rpm":
		return system(args), true
	case "docker", "podman", "kubectl", "helm", "terraform", "tofu", "aws", "gcloud", "az", "gh", "glab":
		return remote(args), true
	}
	return effect{}, false
}

// builtins are the shell builtins that [analysis.builtin] handles. A program such as env cannot run them.
var builtins = strings.Fields("eval trap source . alias unalias enable hash bind complete shopt set")

// builtin returns the effect of builtins that run a text, or that change how bash reads the rest of the command.
func (a *analysis) builtin(name string, args []word) (effect, bool) {
	switch name {
	case "eval":
		return a.texts(args, destroys("eval runs a text as commands")), true
	case "trap":
		if len(args) > 0 && args[0].is("--") {
			args = args[1:]
		}
		if len(args) < 2 || args[0].is("-", "") {
			return changes("it changes how signals are handled"), true
		}
		return a.texts(args[:1], changes("it runs a text as commands later")), true
	case "source", ".":
		if len(args) == 0 || !args[0].literal {
			return unreadable("the code that " + name + " runs is known only at run time"), true
		}
		return a.file(name, args[0].value), true
	case "alias", "unalias", "enable", "hash", "bind", "complete":
		return unreadable(name + " changes the meaning of commands"), true
	case "shopt":
		if !slices.ContainsFunc(args, func(w word) bool { return !w.is(harmlessOptions...) }) {
			return reads(), true
		}
		return unreadable("shopt changes the meaning of commands"), true
	case "set":
		if len(args) == 0 {
			return effect{safety: reads().safety, outside: true}, true // set without arguments prints all variables, which may contain secrets.
		}
		if !slices.ContainsFunc(args, func(w word) bool {
			return !w.is("-e", "-u", "-x", "-eu", "-ue", "-ex", "-eux", "-euo", "-eo", "-o", "+e", "+u", "+x", "pipefail", "errexit", "nounset", "xtrace", "-euxo", "-uo", "-exo")
		}) {
			return reads(), true
		}
		return changes("it changes options or arguments of the shell"), true
	}
	return effect{}, false
}

// harmlessOptions are the arguments of shopt that count as harmless. Most of these options only change the meaning of file patterns.
var harmlessOptions = []string{"-s", "-u", "-q", "nullglob", "globstar", "dotglob", "failglob", "nocaseglob", "inherit_errexit", "lastpipe"}

// texts analyses words as a text that a shell runs. It returns e combined with the effect of the text.
func (a *analysis) texts(words []word, e effect) effect {
	values := make([]string, len(words))
	for i, w := range words {
		if !w.literal {
			return e.and(unreadable("it runs a text that is known only at run time"))
		}
		values[i] = w.value
	}
	a.inner(strings.Join(values, " "))
	return e
}

var shells = []string{"bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash"}

// interpreters maps each interpreter to the letters of its options whose value is code.
var interpreters = map[string]string{
	"python": "c", "python2": "c", "python3": "c", "perl": "eE", "ruby": "e", "node": "ep", "nodejs": "ep", "deno": "", "php": "rBREF",
	"lua": "e", "tclsh": "", "osascript": "e", "pwsh": "c", "Rscript": "e", "awk": "", "gawk": "", "mawk": "", "nawk": "",
}

// runners are programs that run a command from their arguments and are not analysed in detail. The value is the reason why such a command
// always counts as unreadable. When the value is empty, the command counts as a change that may run more than it shows.
var runners = map[string]string{
	"sudo": "runs with other rights", "su": "runs with other rights", "doas": "runs with other rights", "pkexec": "runs with other rights",
	"runuser": "runs with other rights", "chroot": "runs elsewhere", "unshare": "runs elsewhere", "nsenter": "runs elsewhere",
	"systemd-run": "runs elsewhere", "at": "runs later", "batch": "runs later",
	"flock": "", "strace": "", "ltrace": "", "gdb": "", "watch": "", "parallel": "", "ionice": "", "chrt": "", "taskset": "", "script": "",
	"expect": "", "entr": "", "unbuffer": "", "fakeroot": "", "xvfb-run": "", "proxychains": "", "proxychains4": "", "torsocks": "",
	"start-stop-daemon": "", "coreutils": "", "ssh-agent": "", "run-parts": "", "prlimit": "", "setarch": "", "capsh": "", "bwrap": "", "firejail": "",
}

// runner returns the effect of a command that runs code or another command from its arguments. It returns false for other commands.
func (a *analysis) runner(name string, args []word) (effect, bool) {
	if slices.Contains(shells, name) {
		return a.shell(name, args), true
	}
	if options, ok := interpreters[name]; ok {
		return a.interpreter(name, options, args), true
	}
	why, ok := runners[name]
	if !ok {
		return effect{}, false
	}
	e := effect{safety: changes("").safety, reason: name + " runs another command", outside: true, opaque: true}
	if why != "" {
		e = unreadable(name + " " + why)
	}
	first := true
	for i, w := range args {
		inner, _ := program(w)
		_, bad := destructive[inner]
		bad = bad || slices.Contains(shells, inner) || !w.literal
		if bad {
			e = e.and(unreadable(name + " may run " + w.text()))
		}
		if w.literal && (bad || first && !strings.HasPrefix(w.value, "-")) && a.depth < maxInner {
			first = false
			a.depth++
			a.command(args[i:])
			a.depth--
		}
	}
	return e, true
}

// shell returns the effect of a shell such as sh. A shell runs a text argument, a script file, or its standard input. A text argument is
// analysed.
func (a *analysis) shell(name string, args []word) effect {
	reading := changes(name + " runs a text as commands")
	if !slices.Contains([]string{"bash", "rbash", "sh", "dash", "ash", "ksh", "mksh"}, name) {
		reading = unreadable(name + " has a different syntax from bash")
	}
	hasText, reads := false, false
	for i := 0; i < len(args); i++ {
		w := args[i]
		option := strings.HasPrefix(w.value, "-") || strings.HasPrefix(w.value, "+")
		letters := strings.TrimLeft(w.value, "-+")
		switch {
		case !w.literal:
			return unreadable("the code that " + name + " runs is known only at run time")
		case w.value == "--":
			continue
		case !option && hasText:
			return a.texts(args[i:i+1], reading) // The arguments after the text are its parameters, so they are not analysed.
		case !option && reads:
			return a.input(name, reading) // The arguments after -s are parameters of the text on standard input.
		case !option:
			return a.file(name, w.value)
		case strings.HasPrefix(w.value, "--"), strings.Trim(letters, "celuxsoO") != "":
			return unreadable("the options of " + name + " cannot be analysed")
		case strings.ContainsAny(letters, "oO"):
			if i++; i >= len(args) || !args[i].is(shellOptions...) {
				return unreadable("the options of " + name + " cannot be analysed")
			}
		}
		hasText, reads = hasText || strings.Contains(letters, "c"), reads || strings.Contains(letters, "s")
	}
	if hasText {
		return unreadable("the options of " + name + " cannot be analysed")
	}
	return a.input(name, reading)
}

// shellOptions are options that do not change how bash reads a text. extglob changes it, but the parser rejects extended patterns anyway.
var shellOptions = strings.Fields("pipefail errexit nounset xtrace nullglob globstar dotglob failglob nocaseglob inherit_errexit lastpipe extglob")

// input returns the effect of a shell that runs the text on its standard input.
func (a *analysis) input(name string, reading effect) effect {
	if a.stdin == nil {
		return unreadable(name + " runs its input as code")
	}
	a.inner(*a.stdin)
	return reading
}

// file returns the effect of a program that runs a file. A stream such as /dev/stdin is not a file of the workspace; it counts as
// unreadable input.
func (a *analysis) file(name, file string) effect {
	base := path.Base(file)
	if base == "stdin" || isNumber(base) || strings.HasPrefix(file, "/dev/") || strings.HasPrefix(file, "/proc/") {
		return unreadable(name + " runs its input as code")
	}
	return changes("it runs the file " + file)
}

// interpreter returns the effect of an interpreter. A script file counts as an ordinary program. Code in an argument is not analysed, so it
// counts as unreadable.
func (a *analysis) interpreter(name, code string, args []word) effect {
	for i, w := range args {
		switch {
		case !w.literal:
			return unreadable("the code that " + name + " runs is known only at run time")
		case w.value == "-m" && strings.HasPrefix(name, "python") && i+1 < len(args):
			return module(args[i+1:])
		case strings.HasPrefix(w.value, "--"):
			if n, _, _ := strings.Cut(w.value, "="); n == "--eval" || n == "--print" || n == "--run" {
				return unreadable(name + " runs code that is not analysed")
			}
		case strings.HasPrefix(w.value, "-") && w.value != "-":
			if strings.ContainsAny(w.value, code) {
				return unreadable(name + " runs code that is not analysed")
			}
		case w.value == "-":
			return unreadable(name + " runs its input as code")
		case code == "":
			e := changes("the effect of the program of " + name + " is unknown")
			e.opaque = name == "deno" || awkRuns(args)
			return e
		default:
			return a.file(name, w.value)
		}
	}
	return unreadable(name + " runs its input as code")
}

// module returns the effect of python -m, which runs a module.
func module(args []word) effect {
	switch {
	case args[0].is("pip", "pipx", "uv", "poetry"):
		return packages(args[1:])
	case args[0].is("http.server", "smtplib", "ftplib", "telnetlib", "webbrowser"):
		return reachesOut("it opens connections")
	}
	return changes("the effect of the module " + args[0].text() + " is unknown")
}
