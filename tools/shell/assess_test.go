package shell_test

import (
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
	"github.com/toold-dev/toold/tools/shell"
)

func assess(x tool.Tool, command string) tool.Effects {
	return x.(tool.Assessor).Assess(typed.Args(object{"command": command}))
}

// The test table writes effects as letters, which this map translates.
var effects = map[string]tool.Effects{
	"R": {Mutability: tool.ReadOnly, Safety: tool.SafetyReadOnly, Tier: tool.Observe, ConcurrencySafe: true},
	"r": {Mutability: tool.ReadOnly, Safety: tool.SafetyReadOnly, Tier: tool.Confirm, ConcurrencySafe: true},
	"M": {Mutability: tool.Mutating, Safety: tool.SafetyMutating, Tier: tool.Confirm, OpenWorld: true},
	"N": {Mutability: tool.Mutating, Safety: tool.SafetyNetwork, Tier: tool.Confirm, OpenWorld: true},
	"D": {Mutability: tool.Mutating, Safety: tool.SafetyDestructive, Tier: tool.Confirm, OpenWorld: true},
}

type row struct{ letter, command string }

func table(t testing.TB) (rows []row) {
	t.Helper()
	text, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		letter, command, ok := strings.Cut(line, " ")
		if !ok || letter == "#" {
			continue
		}
		rows = append(rows, row{letter, strings.ReplaceAll(command, "⏎", "\n")})
	}
	return rows
}

// TestCommands checks the effects of many commands. Some rows are about T47: a variable that programs interpret turns a command that only
// reads into one that changes something.
func TestCommands(t *testing.T) {
	rows := table(t)
	if len(rows) < 200 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	x := bash(t, shell.Config{Exec: script{}, Dir: "/srv/ws"})
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.command] {
			t.Errorf("%q stands twice", r.command)
		}
		seen[r.command] = true
		want, ok := effects[r.letter]
		if !ok {
			t.Fatalf("unknown letter %q", r.letter)
		}
		if d := cmp.Diff(want, assess(x, r.command)); d != "" {
			parts, _ := shell.Split(r.command)
			t.Errorf("%s %q (-want +got):\n%s%+v", r.letter, r.command, d, parts)
		}
	}
}

func TestAssessmentIsWithinTheDescriptor(t *testing.T) {
	x := bash(t, shell.Config{Exec: script{}})
	d := x.Descriptor()
	for letter, e := range effects {
		if e.MilderThan(d.MildestEffects()) || d.Effects.MilderThan(e) && letter != "D" && reflect.DeepEqual(e.Normal(), d.Effects.Normal()) {
			t.Errorf("%s is milder than the descriptor allows", letter)
		}
	}
	// The descriptor determines the journal class, so a call of bash is recorded before its command starts.
	if d.Effects.Normal().Mutability != tool.Mutating {
		t.Errorf("bash is %s by its descriptor", d.Effects.Mutability)
	}
}

func TestSplit(t *testing.T) {
	tests := []struct {
		command string
		want    []string // texts of the parts; each text is followed by its other spellings, separated by |
		ok      bool
	}{
		{"git  status   -s", []string{"git status -s"}, true},
		{`git commit -m "a b"`, []string{"git commit -m 'a b'"}, true},
		{"git 'status'", []string{"git status"}, true},
		{"'git status' x", []string{"'git status' x | x"}, true}, // A quoted word with a space is one word.
		{"git status; rm -rf x", []string{"git status", "rm -rf x | rm x"}, true},
		{"git status && git status", []string{"git status"}, true},
		{"git log > out.txt", []string{"git log", "> out.txt"}, true},
		{"git log 2>/dev/null", []string{"git log"}, true},
		{"git log $(rm x)", []string{"git log $(rm x)", "rm x"}, true},
		{"timeout 5 git push", []string{"git push | timeout 5 git push"}, true},
		{"/usr/bin/git push", []string{"git push | /usr/bin/git push"}, true},
		{"/tmp/git push", []string{"/tmp/git push | git push"}, true},
		{"/tmp/rm x", []string{"rm x", "/tmp/rm x | rm x"}, true},
		{"LD_PRELOAD=x git push", []string{"git push", "LD_PRELOAD=x"}, true},
		{"env LD_PRELOAD=x git push", []string{"LD_PRELOAD=x", "git push | env LD_PRELOAD=x git push"}, true},
		{"x=1 git push", []string{"git push"}, true},
		{"ls | xargs git push", []string{"ls", `git push "$@"`, "xargs git push"}, true},
		{"find . -exec git rm {} ';'", []string{"git rm {}", "find . -exec git rm {} ';'"}, true},
		{"ls \xff", nil, false},
		{"bash -c 'git push'", []string{"git push", "bash -c 'git push' | bash 'git push'"}, true},
		{"bash -c -e 'git push'", []string{"git push", "bash -c -e 'git push' | bash -e 'git push' | bash 'git push'"}, true},
		{"git -C a push", []string{"git -C a push | git a push | git push"}, true},
		{"$'git' push", []string{"git push"}, true},
		{"{git,push}", []string{"git push"}, true},
		{"git {push,$x}", []string{"git {push,$x}"}, false},
		{"env -C a git push", []string{"git push | env -C a git push"}, true},
		{"env -S'git push' x", []string{"git push x | env '-Sgit push' x"}, true},
		{"sh <<< 'git push'", []string{"git push", "sh"}, true},
		{"bash -s <<'E' >/dev/null\ngit push\nE", []string{"git push", "bash -s"}, true},
		{"bash <<E\n$x\nE", []string{"bash"}, false},
		{"{ sh; } <<< 'git push'", []string{"sh"}, false},
		{"mytool --flag git push", []string{"mytool --flag git push | mytool git push | mytool push | git push | push"}, true},
		{"git() { rm x; }; git push", []string{"git()", "rm x", "git push"}, true},
		{"sudo rm x", []string{"rm x", "sudo rm x"}, false},
		{"$x push", []string{"$x push"}, false},
		{"git push; $x", []string{"git push", "$x"}, false},
		{"eval git push", []string{"git push", "eval git push"}, true},
		{"eval $x", []string{"eval $x"}, false},
		{"git push (", nil, false},
		{"", nil, true},
	}
	for _, tt := range tests {
		parts, ok := shell.Split(tt.command)
		var got []string
		for _, p := range parts {
			got = append(got, strings.Join(p.Spellings(), " | "))
		}
		if d := cmp.Diff(tt.want, got); d != "" || ok != tt.ok {
			t.Errorf("%q: ok %t (-want +got):\n%s", tt.command, ok, d)
		}
	}
}

// The test uses commands that exceed the limits of the parser. They must get the strictest effects, and their assessment must take little
// time.
func TestHostileText(t *testing.T) {
	x := bash(t, shell.Config{Exec: script{}})
	units := []string{
		"(", "{ ", "$(", "`", "\"$(", "((", "$((", "if ", "while ", "case x in x) ", "${a:-", "time ", "coproc ", "f() ", "<(", "f(){ ",
		"((1+", "((-", "((a?b:", "${a[", "$[", "$((a[", "((! ", "let a=", "! ", "a;", "a|", "a&&", "x ", "$x ", "\"", "'", "\\", "a=(", "<<A ",
		"bash -c '", "eval ", "env ", "xargs ", "nice ", "@(", "{a,", "[[ ! ", "\"${a:-", "a=$(", "for x in ", "select x in ",
	}
	for _, unit := range units {
		text := strings.Repeat(unit, (64<<10)/len(unit))
		for _, command := range []string{text, text + "; rm -rf x", "ls; " + text} {
			first := assess(x, command)
			if second := assess(x, command); !reflect.DeepEqual(first, second) {
				t.Errorf("%.20q…: %+v, then %+v", command, first, second)
			}
		}
	}
	for _, command := range []string{"ls\r", "ls\x00", "ls\x1b[31m", "cat <<E\r\nE\r\n"} {
		if got := assess(x, command); got.Safety != tool.SafetyDestructive {
			t.Errorf("%q = %+v", command, got)
		}
	}
}

// The test checks that adding a simple command to a command never makes its effects milder.
func TestPartsAddUp(t *testing.T) {
	x := bash(t, shell.Config{Exec: script{}, Dir: "/srv/ws"})
	order := "RrMND"
	rows := table(t)
	for i, a := range rows {
		b := rows[(i*131+17)%len(rows)]
		if strings.ContainsAny(a.command, "\n#") || strings.HasSuffix(a.command, "&") {
			continue
		}
		if a.letter == "D" && strings.Index(order, b.letter) < 4 {
			continue // When a construct is not terminated in one text, the other text may become a part of it.
		}
		command := a.command + "; " + b.command
		worse := order[max(strings.Index(order, a.letter), strings.Index(order, b.letter))]
		got := assess(x, command)
		if want := effects[string(worse)]; !reflect.DeepEqual(got, want) && got.Safety != tool.SafetyDestructive {
			t.Errorf("%q = %+v, want %c", command, got, worse)
		}
	}
}

func BenchmarkAssess(b *testing.B) {
	tools, _, err := shell.New(shell.Config{Exec: script{}, Dir: "/srv/ws"})
	if err != nil {
		b.Fatal(err)
	}
	x := tools[0]
	for _, command := range []string{"ls -la", "cd src && go test ./... 2>&1 | tail -20", strings.Repeat("echo hello | grep h; ", 500)} {
		b.Run(fmt.Sprint(len(command)), func(b *testing.B) {
			args := typed.Args(object{"command": command})
			b.ReportAllocs()
			for b.Loop() {
				x.(tool.Assessor).Assess(args)
			}
		})
	}
}

// The test checks that the analysis reads escapes and braces as bash does.
func TestT122WordsAreReadAsBashDoes(t *testing.T) {
	words := []string{
		`$'rm'`, `$'\x72\155\u0020\U00000041\'\"\\\?\n\t'`, `$'a'b"c"'d'`, `{rm,-rf,x}`, `{r,x}m`, `a{b,c}d{e,f}`, `{a,{b,c},d}`, `{{a,b},c}`, `"{a,b}"`, `{a,"b c"}`, `x{,y}`, `{$'a b',c}`, `\{a,b\}`,
	}
	for _, w := range words {
		out, err := exec.Command("bash", "-c", `printf "%s\0" `+w).Output()
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Split(strings.ReplaceAll(strings.TrimSuffix(string(out), "\x00"), "'", `'\''`), "\x00")
		fromBash, ok := shell.Split("x '" + strings.Join(words, "' '") + "'")
		got, gotOK := shell.Split("x " + w)
		if !ok || !gotOK || got[0].Text != fromBash[0].Text {
			t.Errorf("%s: %+v, bash has %q", w, got, out)
		}
	}
}
