package main

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRun runs the real go test on modules with one package each. It checks the output, the last line and the exit code.
func TestRun(t *testing.T) {
	tests := []struct {
		name string
		dir  string // directory of the package; empty means "part"
		code string // test code of the package, after the imports
		args []string
		exit int
		last string
		want []string
	}{
		{
			name: "passes",
			code: `func TestA(t *testing.T) { t.Run("x", func(*testing.T) {}); t.Run("y", func(*testing.T) {}); fmt.Println("ran: 40 kills") }`,
			args: []string{"-ci", "-must", "part"},
			last: "2 passed, 0 failed", // only the subtests count
			want: []string{"ok    example.org/m/part", "ran: 40 kills", "ran: 1 packages with tests"},
		},
		{
			name: "log lines count as ran",
			code: `func TestA(t *testing.T) { t.Log("ran: 41 kills") }`,
			last: "1 passed, 0 failed",
			want: []string{"\nran: 41 kills"},
		},
		{
			name: "fails",
			code: `func TestA(t *testing.T) { t.Run("x", func(t *testing.T) { t.Error("two is not three") }) }; func TestB(*testing.T) {}`,
			exit: 1,
			last: "1 passed, 1 failed",
			want: []string{"two is not three", "FAILED: example.org/m/part.TestA/x", "FAIL  example.org/m/part"},
		},
		{
			name: "parent fails alone",
			code: `func TestA(t *testing.T) { t.Run("x", func(*testing.T) {}); t.Error("afterwards") }`,
			exit: 1,
			last: "1 passed, 1 failed",
			want: []string{"afterwards", "FAILED: example.org/m/part.TestA"},
		},
		{
			name: "slashes in names are not parents",
			code: `func TestA(t *testing.T) { t.Run("a/b", func(t *testing.T) { t.Run("c/d", func(t *testing.T) { t.Error("broken") }) }) }`,
			exit: 1,
			last: "0 passed, 1 failed",
			want: []string{"FAILED: example.org/m/part.TestA/a/b/c/d"},
		},
		{
			name: "skips",
			code: `func TestA(t *testing.T) { t.Skip("no database") }; func TestB(*testing.T) {}`,
			last: "1 passed, 0 failed, 1 skipped",
			want: []string{"SKIPPED: example.org/m/part.TestA: ", "no database", "1 TESTS DID NOT RUN"},
		},
		{
			name: "skips in CI",
			code: `func TestA(t *testing.T) { t.Skip("no database") }; func TestB(*testing.T) {}`,
			args: []string{"-ci"},
			exit: 1,
			last: "1 passed, 0 failed, 1 skipped",
			want: []string{"no database"},
		},
		{
			name: "does not build",
			code: `func TestA(t *testing.T) { undefinedName() }`,
			exit: 1,
			last: "0 passed, 1 failed",
			want: []string{"undefined: undefinedName", "FAILED: example.org/m/part (did not build)"},
		},
		{
			name: "panics",
			code: `func TestA(*testing.T) {}; func TestB(*testing.T) { panic("out of cheese") }`,
			exit: 1,
			last: "1 passed, 1 failed",
			want: []string{"out of cheese", "FAILED: example.org/m/part.TestB"},
		},
		{
			name: "times out",
			code: `func TestB(*testing.T) { select {} }`,
			args: []string{"-timeout=1s"},
			exit: 1,
			last: "0 passed, 1 failed",
			want: []string{"test timed out", "FAILED: example.org/m/part.TestB"},
		},
		{
			name: "fails outside of its tests",
			code: `func TestMain(m *testing.M) { m.Run(); fmt.Println("a goroutine was left"); os.Exit(1) }; func TestA(*testing.T) {}`,
			exit: 1,
			last: "1 passed, 1 failed",
			want: []string{"a goroutine was left", "FAILED: example.org/m/part (the package failed, none of its tests did)"},
		},
		{
			name: "leaves out what must run",
			code: `func TestA(*testing.T) {}`,
			args: []string{"-must", "./crash/"},
			exit: 1,
			last: "1 passed, 1 failed",
			want: []string{"FAILED: crash (no test passed there"},
		},
		{
			name: "runs nothing",
			code: `func TestA(*testing.T) {}`,
			args: []string{"-run=TestZ"},
			exit: 1,
			last: "0 passed, 1 failed",
			want: []string{"FAILED: no test ran", "1 without: example.org/m/part"},
		},
		{
			name: "go test refuses its arguments",
			code: `func TestA(*testing.T) {}`,
			args: []string{"-count=many"},
			exit: 1,
			last: "0 passed, 1 failed",
			want: []string{"FAILED: go test: exit status"},
		},
		{
			name: "flaky",
			code: once + `
				func TestA(t *testing.T) { t.Run("x", func(t *testing.T) { if once("a") { t.Error("looked too early") } }) }
				func TestB(*testing.T) { if testing.Short() { fmt.Println("TestB ran") } }`,
			args: []string{"-ci"},
			last: "1 passed, 0 failed, 1 flaky",
			want: []string{
				"FLAKY: example.org/m/part.TestA failed, then passed 3 times alone", "looked too early",
				"add to docs/flaky.md: | `example.org/m/part.TestA` |",
			},
		},
		{
			name: "flaky again",
			code: once + `func TestKnown(t *testing.T) { if once("a") { t.Error("looked too early") } }`,
			last: "0 passed, 0 failed, 1 flaky",
			want: []string{"docs/flaky.md names it already: mend or remove it before anything else"},
		},
		{
			name: "runs again with the flags and seeds of the failed run",
			code: `
				var seed = flag.Uint64("rapid.seed", 0, "")
				func TestSeed(t *testing.T) { if *seed != 42 { t.Error("To reproduce, specify -run=\"TestSeed\" -rapid.seed=42") } }
				func TestOrder(t *testing.T) { if flag.Lookup("test.shuffle").Value.String() == "on" || !testing.Short() { t.Error("another order") } }`,
			args: []string{"-short", "-shuffle=on"},
			last: "0 passed, 0 failed, 2 flaky",
		},
		{
			name: "fails once of three times",
			code: once + `
				func TestA(t *testing.T) { if once("a") { t.Error("looked too early") } }
				func TestB(t *testing.T) {}`,
			args: []string{"-again=false", "-count=3"},
			exit: 1,
			last: "1 passed, 1 failed",
			want: []string{"FAILED: example.org/m/part.TestA", "looked too early"},
		},
		{
			name: "fails again once",
			code: `func TestA(t *testing.T) {
				runs, _ := os.ReadFile("runs")
				os.WriteFile("runs", append(runs, 'x'), 0o600)
				if len(runs) == 0 || len(runs) == 3 { t.Error("run", len(runs)) } }`,
			exit: 1,
			last: "0 passed, 1 failed",
			want: []string{"failed again: example.org/m/part.TestA", "run 3", "FAILED: example.org/m/part.TestA"},
		},
		{
			name: "never flaky",
			code: once + `
				func TestT12Flood(t *testing.T) { if once("t") { t.Error("flooded") } }
				func TestA(t *testing.T) { t.Run("P4 order", func(t *testing.T) { if once("p") { t.Error("gap") } }) }
				func TestModelOfLists(t *testing.T) { if once("m") { t.Error("differs") } }
				func TestRace(t *testing.T) { if once("r") { t.Error("WARNING: DATA RACE") } }
				func TestPanic(t *testing.T) { if once("d") { t.Error("log of the daemon: panic: out of cheese") } }
				func TestEnd(t *testing.T) { if once("l") { t.Error("found unexpected goroutines") } }`,
			exit: 1,
			last: "0 passed, 6 failed",
			want: []string{"its log says WARNING: DATA RACE", "its log says panic:", "its log says found unexpected goroutines"},
		},
		{
			name: "never flaky in crash tests",
			dir:  "crash",
			code: once + `func TestA(t *testing.T) { if once("a") { t.Error("lost") } }`,
			exit: 1,
			last: "0 passed, 1 failed",
			want: []string{"not run again: example.org/m/crash.TestA: it is a test of crashes"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(writeModule(t, cmp.Or(tt.dir, "part"), tt.code))
			own, forGo := splitArgs(tt.args)
			var out, errOut bytes.Buffer
			args := slices.Concat(own, []string{"--", "-vet=off"}, forGo, []string{"./..."})
			exit := run(context.Background(), args, &out, &errOut)
			if exit != tt.exit {
				t.Errorf("exit = %d, want %d", exit, tt.exit)
			}
			lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
			if last := lines[len(lines)-1]; last != tt.last {
				t.Errorf("last line = %q, want %q", last, tt.last)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("output lacks %q", want)
				}
			}
			if t.Failed() {
				t.Logf("output:\n%s%s", out.String(), errOut.String())
			}
		})
	}
}

// once returns true for the first caller with a name, over all runs of the test.
const once = `
func once(name string) bool {
	_, err := os.Stat(name)
	os.WriteFile(name, nil, 0o600)
	return err != nil
}
`

// writeModule creates a module with one package, whose test file contains code, and a list of flaky tests.
func writeModule(t *testing.T, pkg, code string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"go.mod":              "module example.org/m\n\ngo 1.26\n",
		pkg + "/part_test.go": "package part\n\nimport (\n\"flag\"\n\"fmt\"\n\"os\"\n\"testing\"\n)\n\nvar _ = fmt.Sprint(os.Args, flag.Parsed())\n\n" + code + "\n",
		"docs/flaky.md":       "| test | seen |\n|---|---|\n| `example.org/m/part.TestKnown` | 2026-01-02 |\n",
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// splitArgs separates testsum's own flags from those of go test.
func splitArgs(args []string) (own, forGo []string) {
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-ci", "-again=false":
			own = append(own, args[i])
		case "-must":
			own = append(own, args[i], args[i+1])
			i++
		default:
			forGo = append(forGo, args[i])
		}
	}
	return own, forGo
}
