package daemon

import "runtime/debug"

// version is what the linker says of a binary that is built for others.
var version string

// module is the Go module of this package.
const module = "github.com/toold-dev/toold"

// release returns the version of toold: as the linker says, else as the program's build information does, in which it may be a
// dependency.
func release() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == module && m.Version != "" && m.Version != "(devel)" {
				return m.Version
			}
		}
	}
	return "unknown"
}

// commit is what toold was built from; empty when the build information does not say it, or names the commit of another program.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Path != module {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
