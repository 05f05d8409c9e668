package shell

import (
	"regexp"
	"slices"
	"strings"
)

// gitReaders contains the subcommands that only read. The fields name the options with which such a subcommand may do more than read. An
// abbreviation of such an option counts as the option.
var gitReaders = map[string]struct {
	refused string // prefixes of options with which the subcommand may do more
	// When only is not empty, the subcommand only reads if all its options and operands are in this list.
	only string
}{
	"status": {}, "log": gitDiffs, "diff": gitDiffs, "show": gitDiffs, "whatchanged": gitDiffs, "diff-tree": gitDiffs, "diff-index": gitDiffs,
	"blame": {refused: "--output"}, "annotate": {refused: "--output"}, "shortlog": {refused: "--output"}, "grep": {refused: "-O --open-files-in-pager --ext-grep --textconv"},
	"ls-files": {}, "ls-tree": {}, "rev-parse": {}, "rev-list": {}, "merge-base": {}, "name-rev": {}, "describe": {}, "show-ref": {}, "for-each-ref": {},
	"count-objects": {}, "cat-file": {refused: "--textconv --filters --batch"}, "check-ignore": {}, "check-attr": {}, "version": {}, "cherry": {},
	"diff-files": gitDiffs, "range-diff": gitDiffs, "show-branch": {}, "var": {only: "-l"},
	"branch": {only: "-a -r -v -vv -l --all --remotes --list --verbose --show-current --no-color --no-column"},
	"tag":    {only: "-l --list -n"}, "remote": {only: "-v --verbose"}, "worktree": {only: "list --porcelain -v"},
	"reflog": {only: "show HEAD"},
	"config": {only: "--list -l --show-origin --show-scope --local --global --name-only -z"},
}

var gitDiffs = struct{ refused, only string }{refused: "--output --ext-diff --textconv -O --show-signature"}

// gitSubcommand returns the subcommand and its arguments. clear reports that the options before the subcommand do not change what git does.
func gitSubcommand(args []word) (name string, rest []word, clear bool) {
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case w.is("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"):
		case w.is("-C"):
			if i++; i >= len(args) || !args[i].literal {
				return "", nil, false
			}
		case w.literal && !strings.HasPrefix(w.value, "-"):
			return w.value, args[i+1:], true
		default:
			return "", nil, false
		}
	}
	return "", nil, true
}

func checkGit(args []word) string {
	if len(args) == 1 && args[0].is("--version", "--help") {
		return ""
	}
	name, rest, clear := gitSubcommand(args)
	reader, ok := gitReaders[name]
	if clear && gitAsks(name, rest) {
		return ""
	}
	if !clear || !ok {
		return doesMore
	}
	for _, w := range rest {
		switch {
		case reader.only != "" && !w.is(strings.Fields(reader.only)...):
			return doesMore
		case w.literal && w.value == "--":
			return ""
		case w.open || gitRefuses(reader.refused, w.value) || gitSignature.MatchString(w.value):
			return doesMore // For example, git runs gpg to check a signature.
		}
	}
	return ""
}

// gitSignature matches arguments that make git check a signature, for which git runs another program. These are formats such as %G? and
// %+G?, and the field signature of commands such as for-each-ref, in a format or after --sort.
var gitSignature = regexp.MustCompile(`%[-+ ]?G|%\(\*?signature|^--sort=-?\*?signature`)

// gitAsks reports whether this form of a subcommand only reads, although other forms write. An example is git config --get user.name.
func gitAsks(name string, args []word) bool {
	if name == "stash" {
		return len(args) == 1 && args[0].is("list") // Only "git stash list" reads. A plain "git stash" removes the changes from the working tree.
	}
	if len(args) < 2 || slices.ContainsFunc(args[1:], func(w word) bool { return !w.literal || strings.HasPrefix(w.value, "-") }) {
		return false
	}
	switch name {
	case "config":
		return len(args) == 2 && args[0].is("--get", "--get-all", "--get-regexp", "get")
	case "branch", "tag":
		return args[0].is("--list", "-l")
	case "remote":
		return args[0].is("get-url")
	}
	return false
}

// gitRefuses reports whether option is one of refused. A short option is also found inside a cluster of short options, such as -nO.
func gitRefuses(refused, option string) bool {
	option, _, _ = strings.Cut(option, "=")
	for r := range strings.FieldsSeq(refused) {
		if len(r) == 2 && strings.HasPrefix(option, "-") && !strings.HasPrefix(option, "--") && strings.Contains(option, r[1:]) {
			return true
		}
		if strings.HasPrefix(option, r) || strings.HasPrefix(option, "--") && len(option) > 2 && strings.HasPrefix(r, option) {
			return true
		}
	}
	return false
}

// gitEffect returns the effect of a git command that does more than read.
func gitEffect(args []word) effect {
	e := reads()
	for i := 0; i < len(args); i++ { // This loop reads the options before the subcommand.
		w := args[i]
		switch {
		case w.open:
			return unreadable("the git command is known only at run time")
		case w.is("-c", "--config-env") && i+1 < len(args):
			if i++; !harmlessConfig(args[i]) {
				e = unreadable("git -c may run any program")
			}
		case w.is("-C", "--git-dir", "--work-tree", "--namespace"):
			i++
		case strings.HasPrefix(w.value, "--exec-path="), strings.HasPrefix(w.value, "-c"), strings.HasPrefix(w.value, "--config-env"):
			e = unreadable("git may run programs from another directory")
		case !strings.HasPrefix(w.value, "-"):
			return e.and(gitVerb(w.value, args[i+1:]))
		}
	}
	return e.and(changes("git changes the repository"))
}

// harmlessConfig reports whether a setting is one of a few known harmless settings, such as those of the author or of colors.
func harmlessConfig(w word) bool {
	key, _, _ := strings.Cut(strings.ToLower(w.value), "=")
	return w.literal && slices.ContainsFunc([]string{"user.", "color.", "advice.", "core.quotepath", "core.autocrlf", "init.defaultbranch", "commit.gpgsign", "safe.directory"},
		func(p string) bool { return strings.HasPrefix(key, p) })
}

// gitLosses contains the subcommands that may destroy data permanently or run other programs. With always set, a subcommand always does so.
// Otherwise it does so with one of these arguments: one of the listed words, a short option with one of the letters, or a word that begins
// with one of the prefixes in long.
var gitLosses = map[string]struct {
	always               bool
	words, letters, long string
	opaque               bool // the subcommand runs another program
}{
	"rm": {always: true}, "filter-branch": {always: true}, "filter-repo": {always: true}, "update-ref": {always: true}, "prune": {always: true},
	"gc": {always: true}, "replace": {always: true}, "difftool": {always: true, opaque: true}, "mergetool": {always: true, opaque: true},
	"reset": {long: "--h --me --k"}, "checkout": {words: "-- .", letters: "fB", long: "--f --disc"}, "switch": {letters: "fC", long: "--f --disc"},
	"branch": {letters: "dDfM", long: "--d --f"}, "tag": {letters: "dDfM", long: "--d --f"}, "stash": {words: "drop clear"},
	"reflog": {words: "expire delete"}, "worktree": {words: "remove prune", letters: "f"}, "remote": {words: "remove rm prune set-url"},
	"bisect": {words: "run", opaque: true}, "rebase": {letters: "x", long: "--ex", opaque: true}, "hook": {words: "run", opaque: true},
	"for-each-repo": {always: true, opaque: true}, "fetch": {long: "--upl ext::", opaque: true}, "pull": {long: "--upl ext::", opaque: true},
	"clone": {letters: "uc", long: "--upl --con ext::", opaque: true}, "ls-remote": {long: "--upl --exec ext::", opaque: true},
	"archive": {long: "--exec --remote=ext::", opaque: true}, "grep": {letters: "O", long: "--open", opaque: true}, "submodule": {words: "foreach", opaque: true},
}

var gitNetwork = set("fetch pull clone ls-remote submodule remote lfs svn p4 send-email request-pull archive")

func gitVerb(verb string, args []word) effect {
	loss := gitLosses[verb]
	switch {
	case verb == "push":
		return gitPush(args)
	case verb == "config":
		return gitConfig(args)
	case verb == "restore" && !hasOption(args, "--staged", "S", "--st"):
		return destroys("git restore discards changes")
	case verb == "clean" && (!hasOption(args, "--dry-run", "n", "--dr") || hasOption(args, "", "f", "--f")):
		return destroys("git clean deletes files")
	case loss.always || hasOption(args, loss.words, loss.letters, loss.long):
		if loss.opaque {
			return unreadable("git " + verb + " runs other commands")
		}
		return destroys("git " + verb + " deletes data that cannot be recovered")
	case gitNetwork[verb]:
		return reachesOut("git " + verb + " connects to other machines")
	}
	return changes("git " + clip(verb, nameLength) + " changes the repository")
}

// hasOption reports whether args contain one of words, a short option with one of letters, or a word that begins with one of the prefixes
// in long.
func hasOption(args []word, words, letters, long string) bool {
	return slices.ContainsFunc(args, func(w word) bool {
		v := w.value
		short := len(v) > 1 && v[0] == '-' && v[1] != '-' && strings.ContainsAny(v[1:], letters)
		begins := slices.ContainsFunc(strings.Fields(long), func(l string) bool { return strings.HasPrefix(v, l) })
		return short || begins || w.is(strings.Fields(words)...)
	})
}

// gitConfig returns the effect of a change of git's settings. Some settings name programs that git runs, so every setting counts as
// suspicious unless it is known to be harmless.
func gitConfig(args []word) effect {
	for _, w := range args {
		if !strings.HasPrefix(w.value, "-") && harmlessConfig(w) {
			return changes("git config changes a setting")
		}
	}
	return unreadable("git config can make later commands run any program")
}

// gitPush returns the effect of a push. A push that overwrites or deletes something is more severe than one that only adds commits.
func gitPush(args []word) effect {
	for _, w := range args {
		short := len(w.value) > 1 && w.value[0] == '-' && w.value[1] != '-'
		switch {
		case w.open:
			return destroys("git push may be forced")
		case strings.HasPrefix(w.value, "--for"), short && strings.Contains(w.value, "f"), strings.HasPrefix(w.value, "+"):
			return destroys("git push is forced")
		case strings.HasPrefix(w.value, "--de"), short && strings.Contains(w.value, "d"), strings.HasPrefix(w.value, ":"),
			strings.HasPrefix(w.value, "--mi"), strings.HasPrefix(w.value, "--pru"):
			return destroys("git push deletes")
		case strings.HasPrefix(w.value, "--receive-pack"), strings.HasPrefix(w.value, "--e"), strings.HasPrefix(w.value, "ext::"):
			return unreadable("git push runs a command from its options")
		}
	}
	return reachesOut("git push connects to other machines")
}
