package shell

import (
	"path"
	"slices"
	"strings"

	"github.com/toold-dev/toold/sandbox"
)

// isInside reports whether a path is below the working directory, as far as its text shows. p may also be an option that contains a path as
// its value. isInside does not follow symbolic links.
func isInside(p string) bool {
	if strings.HasPrefix(p, "-") {
		if _, value, ok := strings.Cut(p, "="); ok {
			return isInside(value)
		}
		return !strings.Contains(p, "/") && !strings.Contains(p, "..")
	}
	if strings.HasPrefix(p, "/") || strings.HasPrefix(p, "~") || strings.Contains(p, ":/") {
		return false
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." || strings.HasPrefix(part, ".") && strings.ContainsAny(part, "*?[") {
			return false
		}
	}
	return true
}

// isBelow reports whether a word names a path in dir or below the working directory, as far as its text shows.
func (w word) isBelow(dir string) bool {
	if w.inside {
		return true
	}
	if dir == "" || !strings.HasPrefix(w.path, "/") || strings.ContainsAny(w.path, "$~{") || strings.Contains(w.path, "..") {
		return false
	}
	p := path.Clean(w.path)
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/") && !strings.Contains(p, "/.*") && !strings.Contains(p, "/.?") && !strings.Contains(p, "/.[")
}

// A write below one of these directories may change the machine, and not only data of the user.
var systemRoots = []string{
	"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/proc", "/root", "/run", "/sbin", "/srv",
	"/sys", "/usr", "/var",
}

// isSystem reports whether a write to p may change the machine, or programs that run later. dir is the working directory. bases are other
// directories to which the command may change before the write.
func isSystem(p, dir string, bases []string) bool {
	if isSink(p) {
		return false
	}
	if sandbox.Protects(sandbox.DefaultAsked(), p) {
		return true
	}
	switch {
	case strings.HasPrefix(p, "/"):
		return isSystemPath(path.Clean(p), dir)
	case strings.HasPrefix(p, "~"), strings.HasPrefix(p, "$"):
		return false
	}
	return slices.ContainsFunc(append(slices.Clip(bases), dir), func(base string) bool {
		return base != "" && isSystemPath(path.Join(base, p), dir)
	})
}

func isSystemPath(p, dir string) bool {
	if dir != "" && (p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")) {
		return false
	}
	if strings.HasPrefix(p, "/var/tmp/") {
		return false
	}
	for _, root := range systemRoots {
		if p == root || strings.HasPrefix(p, root+"/") || strings.HasPrefix(p, root+"*") {
			return true
		}
	}
	return p == "/" || strings.HasPrefix(p, "/*") || strings.HasPrefix(p, "/?") || strings.HasPrefix(p, "/[")
}

// isSink reports whether a write to p changes no file, because p is a stream or a device such as /dev/null.
func isSink(p string) bool {
	switch p {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/full", "/dev/zero":
		return true
	}
	n, ok := strings.CutPrefix(p, "/dev/fd/")
	return ok && isNumber(n)
}

// isSocket reports whether bash opens a network connection for a redirect to or from p, as it does for /dev/tcp.
func isSocket(p string) bool {
	return strings.HasPrefix(p, "/dev/tcp/") || strings.HasPrefix(p, "/dev/udp/")
}

func isNumber(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}
