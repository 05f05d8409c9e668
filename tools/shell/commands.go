package shell

import (
	"slices"
	"strings"
)

// find returns the effect of a find command with actions that do more than print.
func (a *analysis) find(args []word) effect {
	e := changes("find does more than print")
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case w.open:
			e = e.and(changes("the options of find are known only at run time"))
		case w.is("-delete"):
			e = e.and(destroys("find deletes"))
		case w.is("-fprint", "-fprint0", "-fprintf", "-fls") && i+1 < len(args):
			e = e.and(a.write(args[i+1]))
		case w.is("-exec", "-execdir", "-ok", "-okdir"):
			end := i + 1
			for end < len(args) && !args[end].is(";", "+") {
				end++
			}
			e = e.and(a.handed(args[i+1:end], "{}"))
			i = end
		}
	}
	return e
}

// xargs returns the effect of the command that xargs runs. The program xargs appends words to this command, and these words are known only
// at run time.
func (a *analysis) xargs(args []word) effect {
	w := wrapper{flags: "0rtpxo", valued: "IaEdLnPs", long: "--null --no-run-if-empty --verbose --interactive --exit --open-tty --arg-file= --delimiter= " +
		"--max-args= --max-procs= --max-chars= --max-lines= --replace="}
	rest, clear := w.skip(args)
	if !clear {
		return unreadable("the command that xargs runs cannot be determined")
	}
	replaced := ""
	for i, o := range args[:len(args)-len(rest)] {
		switch {
		case o.is("-I") && i+1 < len(args):
			replaced = args[i+1].value
		case strings.HasPrefix(o.value, "-I"), strings.HasPrefix(o.value, "--replace="):
			replaced = strings.TrimPrefix(strings.TrimPrefix(o.value, "-I"), "--replace=")
		case strings.HasPrefix(o.value, "-") && strings.Contains(o.value, "I"):
			return unreadable("the command that xargs runs cannot be determined")
		}
	}
	if len(rest) == 0 {
		rest = literals("echo")
	}
	return a.handed(rest, replaced)
}

// handed returns the effect of a command that find or xargs runs with file names. In its words, the file names replace mark. When no word
// contains mark, the file names follow the words.
func (a *analysis) handed(words []word, mark string) effect {
	words = slices.Clone(words)
	found := false
	for i, w := range words {
		if mark == "" || !strings.Contains(w.value, mark) {
			continue
		}
		found = true
		before, _, _ := strings.Cut(w.value, mark)
		words[i] = word{value: before, path: before + "$", open: before == "" || strings.HasPrefix(before, "-"), source: w.source}
	}
	if !found {
		words = append(words, word{path: "$", open: true, many: true, source: `"$@"`})
	}
	if a.depth >= maxInner || !a.budget.spend(words) {
		return unreadable(errTooComplex.Error())
	}
	a.depth++
	defer func() { a.depth-- }()
	a.stdin = nil
	rest, e := a.peel(words)
	if len(rest) == 0 {
		return e
	}
	e = e.and(a.judge(rest))
	a.note(textOf(rest), e)
	return e
}

func (a *analysis) sed(args []word) effect {
	inPlace := func(w word) bool {
		return w.literal && (strings.HasPrefix(w.value, "--in") || isFlag(w) && !strings.HasPrefix(w.value, "--") && strings.Contains(w.value, "i"))
	}
	e := changes("the script of sed may do more than print")
	if slices.ContainsFunc(args, inPlace) {
		e = a.writer("sed -i", args)
	}
	e.opaque = checkSed(slices.DeleteFunc(slices.Clone(args), inPlace)) != ""
	return e
}

func (a *analysis) tee(args []word) effect {
	e := reads()
	for _, w := range args {
		if !w.is("-a", "--append", "-i", "-p") {
			e = e.and(a.write(w))
		}
	}
	return e
}

// writer returns the effect of a command that changes the files in its arguments. A command that copies changes only the last of them.
func (a *analysis) writer(name string, args []word) effect {
	copies := name == "cp" || name == "ln" || name == "install" || name == "gzip"
	for i, w := range args {
		option := strings.HasPrefix(w.value, "-")
		if copies && i < len(args)-1 && !option && !args[max(i-1, 0)].is("-t", "--target-directory") {
			continue
		}
		target := w.path
		if _, value, ok := strings.Cut(target, "="); option && ok {
			target = value
		}
		if isSystem(target, a.dir, a.bases) {
			return destroys(name + " changes " + target)
		}
	}
	return changes(name + " changes files")
}

// download returns the effect of a command that connects to other machines and may write the response to a file.
func (a *analysis) download(name string, args []word) effect {
	for i, w := range args {
		_, value, _ := strings.Cut(w.path, "=")
		switch {
		case w.is("-o", "--output", "-O", "--output-document", "-P", "--directory-prefix", "--output-dir") && i+1 < len(args) && isSystem(args[i+1].path, a.dir, a.bases),
			strings.HasPrefix(w.value, "--output") && isSystem(value, a.dir, a.bases),
			strings.HasPrefix(w.value, "-o/") && isSystem(w.path[2:], a.dir, a.bases),
			(name == "nc" || name == "ncat" || name == "netcat" || name == "socat") && (w.is("-e", "-c", "--exec", "--sh-exec") || strings.Contains(strings.ToUpper(w.value), "EXEC:")):
			return destroys(name + " can give control of the machine to data from the network")
		}
	}
	return reachesOut(name + " connects to other machines")
}

func (a *analysis) rsync(args []word) effect {
	e := a.writer("rsync", args[max(len(args)-1, 0):])
	for _, w := range args {
		switch {
		case strings.HasPrefix(w.value, "--del"), strings.HasPrefix(w.value, "--remove-source"):
			e = e.and(destroys("rsync deletes"))
		case w.open, strings.Contains(w.value, ":"):
			e = e.and(reachesOut("rsync connects to other machines"))
		case strings.HasPrefix(w.value, "--rsh"), strings.HasPrefix(w.value, "-e"):
			e = e.and(unreadable("rsync runs a command from its options"))
		}
	}
	return e
}

func systemctl(args []word) effect {
	if len(args) > 0 && args[0].is("status", "is-active", "is-enabled", "is-failed", "list-units", "list-unit-files", "show", "cat") {
		return changes("it queries the service manager")
	}
	return destroys("systemctl changes services")
}

func crontab(args []word) effect {
	if len(args) == 1 && args[0].is("-l") {
		return changes("it shows scheduled jobs")
	}
	return destroys("crontab changes scheduled jobs")
}

// verb returns the first word that is not an option.
func verb(args []word) string {
	for _, w := range args {
		if !strings.HasPrefix(w.value, "-") && !strings.HasPrefix(w.value, "+") {
			return w.value
		}
	}
	return ""
}

// packages returns the effect of a language's package manager, which runs the project's scripts or downloads packages.
func packages(args []word) effect {
	switch v := verb(args); v {
	case "run", "exec", "x":
		e := changes("it runs scripts of the project")
		if slices.ContainsFunc(args, func(w word) bool { return strings.Contains(w.value, "@") }) { // With an argument such as module@version, go run downloads the module.
			e = reachesOut("it may download the code that it runs")
		} else if v != "run" {
			e = reachesOut("it may download and install (" + v + ")")
		}
		e.runs = true
		return e
	case "install", "i", "in", "ci", "add", "update", "upgrade", "up", "get", "download", "fetch", "publish", "unpublish", "sync", "outdated", "audit",
		"search", "view", "info", "login", "logout", "create", "init", "dlx", "push", "pull", "require", "tool", "mod", "vendor", "lock",
		"clone", "ping", "owner", "deprecate", "dist-tag", "yank", "whoami", "index", "work", "link", "global", "self":
		return reachesOut("it may download and install (" + v + ")")
	case "uninstall", "remove", "rm", "un", "r", "cache", "clean", "prune", "purge":
		return changes("it removes packages or their files")
	case "":
		if len(args) == 0 {
			return reachesOut("it may download and install")
		}
	}
	return changes("it runs scripts of the project")
}

// system returns the effect of a package manager of the operating system, such as apt.
func system(args []word) effect {
	switch v := verb(args); v {
	case "list", "show", "search", "info", "policy", "depends", "leaves", "deps", "check-update", "update":
		return reachesOut("it queries package sources")
	default:
		return destroys("it changes the packages of the machine")
	}
}

// remote returns the effect of a client for a remote service, which changes resources on other machines.
func remote(args []word) effect {
	for _, w := range args {
		for word := range strings.SplitSeq(w.value, "-") {
			switch word {
			case "rm", "rmi", "delete", "remove", "prune", "destroy", "kill", "down", "terminate", "purge", "drop", "uninstall", "drain":
				return destroys("it deletes or stops resources: " + w.value)
			}
		}
		if w.is("--privileged", "--pid=host", "--net=host") || strings.Contains(w.value, "/:/") || strings.Contains(w.value, "docker.sock") {
			return destroys("it gives access to the machine: " + w.value)
		}
	}
	return reachesOut("it sends a request to a service")
}
