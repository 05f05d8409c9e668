package main

import (
	"testing"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

// A rule that denies one command meets each of its spellings, and each text that nobody can read in full.
func TestT122DeniedCommands(t *testing.T) {
	rules := `rules:
  - {name: shell, action: allow, tools: [bash]}
  - {name: deletes, action: deny, tools: ["bash(rm *)"]}
  - {name: pushes, action: ask always, tools: ["bash(git push*)"]}
`
	tests := map[string][]string{
		"deny": {
			"rm x", `$'rm' x`, `$'\x72m' x`, `{rm,-rf,x}`, `{r,x}m`, `env -C / rm x`, `env --chdir=/ rm x`, `env -S'rm x'`, `env -S 'rm -rf x'`, `env --split-string='rm x'`,
			`bash -O extglob -c 'rm x'`, `bash -euo pipefail -c 'rm x'`, `sh <<< 'rm x'`, "bash <<'E'\nrm x\nE", `. /dev/stdin <<< 'rm x'`, `bash /dev/fd/0 <<< 'rm x'`,
			`/bin/r? x`, `/bin/r[m] x`, `r* x`, `$x x`, `x=rm; $x x`, `$(echo rm) x`, `rm${IFS}x`, `echo rm x | sh`, `echo x | xargs env`, `eval "$x"`, `zsh -c '=rm x'`,
			`fish -c 'ls'`, `awk 'BEGIN{system("rm x")}'`, `sed '1e rm x' a`, `x='a[$(rm x)]'; echo $((x))`, `read 'a[$(rm x)]' <<< 1`, `printf -v 'a[$(rm x)]' 1`,
			`PS4='$(rm x)'; set -x; ls`, `BASH_ENV='$(rm x)' bash -c ls`, `EDITOR='rm x' git commit`, `env 'BASH_FUNC_ls%%=() { rm x; }' bash -c ls`, `GIT_PAGER=$x git log`,
			`chronic rm x`, `unknown-program bash -c 'rm x'`, `coreutils --coreutils-prog=rm x`, `ls (`, "ls\rrm x", `@(rm) x`, `coproc rm x`, `alias ls=rm; ls x`, `find . -exec rm {} +`,
		},
		"ask": {
			`git push`, `git -C a push`, `git --no-pager push origin`, `git -c user.name=x push`, `$'git' push`, `env -S'git push'`, `{git,push}`,
		},
		"allow": {
			`ls`, `git status`, `make -j8 && go test ./...`, `CFLAGS='-O2 -g' make`, `CGO_ENABLED=0 go build`, `PATH=$PWD/bin:$PATH make`, `env -C sub make`, `env -S 'make -k'`,
			`bash -euo pipefail -c 'make'`, "bash <<'E'\nmake\nE", `echo rm x`, `git commit -m 'rm x'`, `x=1; y=$x`, `# rm x`, `for i in {a,b}; do make "$i"; done`, `awk '{print $1}' a`, `echo $'a\tb'`,
			`if [[ -f a ]]; then cat a; fi`, `grep -rn "$x" .`, `cat *.go`, `npm run build`, `printf '%s\n' "$x"`, `bash -O globstar -c 'ls **'`, `python3 x.py`, `mytool --flag x`,
		},
	}
	for want, list := range tests {
		for _, command := range list {
			if got := ruled(t, rules, command, ""); got != want {
				parts, known := commands()["bash"](typed.Args(map[string]any{"command": command}))
				t.Errorf("%q: %s, want %s: %+v %v", command, got, want, parts, known)
			}
		}
	}
}

// An expression holds for a command that is not understood only where the rest of it does.
func TestT122ExpressionsAboutCommands(t *testing.T) {
	rules := `rules:
  - {name: shell, action: allow, tools: [bash]}
  - {name: by expression, action: deny, tools: [bash], when: 'run.id == "r" && arguments.command.startsWith("rm ")'}
`
	for command, want := range map[string][2]string{"$x a": {"deny", "allow"}, "rm a": {"deny", "allow"}, "ls": {"allow", "allow"}} {
		if got := [2]string{ruled(t, rules, command, "r"), ruled(t, rules, command, "q")}; got != want {
			t.Errorf("%q: %v, want %v", command, got, want)
		}
	}
}

// ruled returns what rules make of a command.
func ruled(t *testing.T, rules, command, run string) string {
	t.Helper()
	parsed, err := permission.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	gate := permission.New(permission.Config{Rules: parsed, Commands: commands()})
	v, err := gate.Check(t.Context(), &hook.Input{
		Descriptor: &tool.Descriptor{ID: "bash", Parameters: []byte(`{"properties":{"command":{"type":"string"}},"required":["command"]}`)},
		Arguments:  typed.Args(map[string]any{"command": command}), Caller: tool.Principal{Subject: "agent", Roles: []string{"caller"}}, Run: tool.Run{ID: run},
	})
	switch {
	case err != nil:
		t.Fatalf("%q: %v", command, err)
	case v.Result().IsError():
		return "deny"
	case v.Kind() == hook.KindSuspend:
		return "ask"
	}
	return "allow"
}
