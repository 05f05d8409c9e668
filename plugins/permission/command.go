package permission

import "strings"

// commandPrefix returns the words with which later commands must begin to be covered by a remembered answer: the program, and its
// subcommand if it has any. It returns "" for a program that runs other programs or code, because the first words of such a command do not
// show what it does.
func commandPrefix(part string) string {
	words := strings.Fields(part)
	if len(words) == 0 || !plainWord(words[0]) || runsOthers(words[0]) {
		return ""
	}
	prefix := words[0]
	if len(words) > 1 && subcommand(words[1]) {
		prefix += " " + words[1]
	}
	if part != prefix && !strings.HasPrefix(part, prefix+" ") { // other white space separates the words
		return ""
	}
	return prefix
}

// plainWord reports whether a word is a plain name, without an assignment, quotation or expansion.
func plainWord(w string) bool {
	for _, c := range w {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("_-+./", c)) {
			return false
		}
	}
	return w[0] != '-' && w[0] != '+'
}

// subcommand reports whether a program's first argument looks like a subcommand rather than an operand.
func subcommand(w string) bool {
	for _, c := range w {
		if !('a' <= c && c <= 'z' || c == '-') {
			return false
		}
	}
	return w[0] != '-'
}

// runsOthers reports whether a program executes its arguments.
func runsOthers(program string) bool {
	program = program[strings.LastIndexByte(program, '/')+1:]
	for _, interpreter := range []string{"python", "ruby", "perl", "php", "lua", "node", "tclsh", "pypy"} { // a prefix, for names such as python3.12
		if rest, ok := strings.CutPrefix(program, interpreter); ok && strings.Trim(rest, "0123456789.") == "" {
			return true
		}
	}
	switch program {
	case "sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "busybox", "eval", "exec", "source", ".", "command", "builtin",
		"env", "time", "nice", "nohup", "timeout", "setsid", "stdbuf", "xargs", "parallel", "find", "fd", "watch", "script", "strace",
		"ltrace", "gdb", "sudo", "doas", "su", "runuser", "chroot", "unshare", "nsenter", "bwrap", "flock", "ssh", "docker", "podman",
		"kubectl", "awk", "gawk", "mawk", "sed", "deno", "bun", "npx", "uvx", "pipx", "osascript", "expect", "trap", "alias":
		return true
	}
	return false
}
