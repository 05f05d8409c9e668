package daemon

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/toold-dev/toold/cli"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

var update = flag.Bool("update", false, "write testdata")

// root returns the whole command line.
func root() *cobra.Command {
	a := &cli.App{}
	addCommands(a, options{})
	return a.Root()
}

// Every command has help that fits a terminal. Its examples use only commands, flags and arguments that exist.
func TestHelp(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, below := range c.Commands() {
			walk(below)
		}
		if c.Name() == "exit-codes" || c.Name() == "help" || c.Name() == "completion" || c.HasParent() && c.Parent().Name() == "completion" {
			return // Skip the help pages and the commands that cobra adds.
		}
		if c.Short == "" || !strings.Contains(c.Example, "toold "+strings.TrimPrefix(c.CommandPath(), "toold ")) && c.HasParent() {
			t.Errorf("%s: help %q, example %q", c.CommandPath(), c.Short, c.Example)
		}
		for _, words := range commandsOf(t, c.Example) {
			if err := parses(words); err != nil {
				t.Errorf("the example %q of %s: %v", words, c.CommandPath(), err)
			}
		}
		var help strings.Builder
		c.SetOut(&help)
		must(t, c.Help())
		for line := range strings.Lines(help.String()) {
			if len([]rune(strings.TrimRight(line, "\n"))) > 80 {
				t.Errorf("%s: a line of its help is too long: %s", c.CommandPath(), line)
			}
		}
	}
	walk(root())
}

// commandsOf returns the words of each toold command in a shell script.
func commandsOf(t *testing.T, text string) (all [][]string) {
	t.Helper()
	script, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	syntax.Walk(script, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 && call.Args[0].Lit() == "toold" {
			words, err := expand.Fields(nil, call.Args[1:]...)
			must(t, err)
			all = append(all, words)
		}
		return true
	})
	return all
}

// parses checks a command line as the program does before it runs the command.
func parses(words []string) error {
	c, rest, err := root().Find(words)
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil {
		err = c.ValidateArgs(c.Flags().Args())
	}
	return err
}

// The output of "toold help" matches the golden file.
func TestHelpOfAll(t *testing.T) {
	file := filepath.Join("testdata", "help.golden")
	got := new(run).do(t, t.TempDir(), "help").out
	if *update {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s differs; with -update it is accepted\n--- want\n%s--- got\n%s", file, want, got)
	}
}

// completions requests completions as a shell does.
func (s *site) completions(t *testing.T, words ...string) []string {
	t.Helper()
	r := new(run).do(t, s.data, append([]string{"__complete"}, words...)...)
	if r.code != 0 {
		t.Fatalf("%q: exit code %d: %s", words, r.code, r.err)
	}
	var found []string
	for line := range strings.Lines(r.out) {
		word, _, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		if !strings.HasPrefix(word, ":") && word != "" {
			found = append(found, word)
		}
	}
	return found
}

func TestCompletion(t *testing.T) {
	s := newSite(t, "")
	p := s.start()
	made := p.inRun(&tooldv1.Run{RunId: "run-\x7e1", ThreadId: "thread-1"}, "glob", `{"pattern":"*"}`)
	asked := p.ask("write", `{"path":"a","content":"\u001b[31m"}`)
	for _, tt := range []struct {
		words []string
		want  string
	}{
		{[]string{"call", "wri"}, "write"},
		{[]string{"watch", made.GetCallId()[:8]}, made.GetCallId()},
		{[]string{"calls", "show", ""}, asked.GetCallId()},
		{[]string{"approve", ""}, asked.GetSuspension().GetSuspensionId()},
		{[]string{"watch", "--run", ""}, "run-~1"},
		{[]string{"runs", "end", "run"}, "run-~1"},
		{[]string{"inbox", "--thread", "th"}, "thread-1"},
		{[]string{"calls", "--run="}, "run-~1"},
		{[]string{"calls", "--tool", "gl"}, "glob"},
		{[]string{"log-level", "d"}, "debug"},
		{[]string{"watch", "-o", ""}, "jsonl"},
	} {
		eventually(t, strings.Join(tt.words, " "), func() bool { // a read-only call appears in lists a little later
			return strings.Contains(strings.Join(s.completions(t, tt.words...), "\n"), tt.want)
		})
	}
	p.kill()
	for _, words := range [][]string{{"call", ""}, {"watch", "--run", ""}, {"approve", ""}} {
		if got := s.completions(t, words...); len(got) != 0 {
			t.Errorf("%q without a daemon: %q", words, got)
		}
	}
}

// Shells accept the completion scripts, and bash completes commands with its script.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if r := new(run).do(t, t.TempDir(), "completion", shell); r.code != 0 || !strings.Contains(r.out, "__complete") {
			t.Errorf("%s: %d %s", shell, r.code, r.err)
		}
	}
	s := newSite(t, "")
	s.start()
	exe, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	must(t, os.Symlink(exe, filepath.Join(dir, "toold")))
	cmd := exec.CommandContext(within(t), "bash", "--norc", "-c", `
source <(toold completion bash) || exit 1
_init_completion() { words=(toold call gre); cword=2; cur=gre; prev=call; } # as the package bash-completion does
COMP_LINE="toold call gre" COMP_POINT=14 COMP_TYPE=9
__start_toold
printf '%s\n' "${COMPREPLY[@]}"`)
	cmd.Env = append(os.Environ(), asDaemon+"=1", "PATH="+dir+":"+os.Getenv("PATH"), "TOOLD_DATA="+s.data)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "grep") {
		t.Errorf("bash: %v\n%s", err, out)
	}
}
