package daemon

import (
	"runtime/debug"
	"strings"
)

// version is set by the linker in release builds.
var version string

// module is the path of the Go module.
const module = "github.com/toold-dev/toold"

// release returns the version of toold without the leading v. It returns the version that the linker set. If there is none, it returns the
// version of the module in the build information. The module may be a dependency of the program.
func release() string {
	if version != "" {
		return strings.TrimPrefix(version, "v")
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == module && m.Version != "" && m.Version != "(devel)" {
				return strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	return "unknown"
}

// commit returns the commit from which toold was built. It returns "" when the build information has none, or when that is the commit of an
// embedding program.
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
