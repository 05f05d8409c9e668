package sandbox

import (
	"fmt"
	"strings"
	"testing"
)

// A process chooses its name, which may contain spaces and parentheses. In /proc/PID/stat, the name comes before other fields, such as the
// parent. FuzzParseStat checks that no name changes how these fields are read.
func FuzzParseStat(f *testing.F) {
	for _, name := range []string{"sleep", "x) Z 1 1 1", "", "(", ")", "a b\n) R 1", "\xff"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		parseStat([]byte(name)) // No input may cause a panic.
		line := fmt.Sprintf("7 (%s) S 5 6 4 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 99 0 0\n", name)
		got, err := parseStat([]byte(line))
		want := process{pid: 7, parent: 5, group: 6, session: 4, state: 'S', threads: 3, start: 99}
		if err != nil || got != want {
			t.Errorf("parseStat(%q) = %+v, %v", line, got, err)
		}
	})
}

// FuzzSplitTag checks that any value is parsed without a panic, because any process can set the variable.
func FuzzSplitTag(f *testing.F) {
	for _, value := range []string{"", "o", "o/1.2/r/t", "o/1.2/r/t/u", "o/1/r/t", "o/-1.-2/r/t", "o/9999999999999999999.1/r/t"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		owner, daemon, tag := splitTag(value)
		if owner != "" && !(strings.HasPrefix(value, owner+"/") && strings.HasSuffix(value, "/"+tag)) {
			t.Errorf("splitTag(%q) = %q, %v, %q", value, owner, daemon, tag)
		}
		made := tagOfRun("o", identity{1, 2}, "R", value)
		if owner, daemon, tag := splitTag(made); owner != "o" || daemon != (identity{1, 2}) || tag != value {
			t.Errorf("splitTag(%q) = %q, %v, %q", made, owner, daemon, tag)
		}
	})
}
