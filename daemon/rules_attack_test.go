package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

// TestT122DeniedCommands checks that a rule that denies a command matches every spelling of the command, and every command text that cannot
// be parsed completely.
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
			`bash -s a <<< 'rm x'`, `trap -- 'rm x' EXIT`, `tar --checkpoint-action=exec='rm x' -cf a b`, `rsync --rsync-path='rm x' a b:`, `go test -exec 'rm x' ./...`, `vim +'!rm x' a`,
			`fzf --bind 'start:execute(rm x)'`, `socat EXEC:'rm x' -`, `ssh localhost rm x`, `docker run image rm x`, `npx rm x`, `tar ` + strings.Repeat(`'a b' `, 40) + `--to-command='rm x'`,
			`mytool bash -c 'a;b;c;d;e;f;g;h;i' rm x`,
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

// TestT122ExpressionsAboutCommands checks a deny rule whose expression tests the command. The rule also matches a command that cannot be
// parsed, provided that the other conditions of the expression are true.
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

// TestT122PathsOfTheWorkspace checks that a rule about a path matches the file, whatever spelling of the path a call uses.
func TestT122PathsOfTheWorkspace(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "secret"), 0o700))
	must(t, os.MkdirAll(filepath.Join(dir, "src"), 0o700))
	must(t, os.Symlink("secret", filepath.Join(dir, "link")))
	must(t, os.Symlink("../secret/x", filepath.Join(dir, "src", "x")))
	must(t, os.Symlink("/etc", filepath.Join(dir, "src", "out")))
	all, err := openWorkspaces(&config.Config{Workspace: dir})
	must(t, err)
	defer all.Close()
	tests := map[string]struct{ rule, allowed, refused string }{
		"deny": {
			rule:    `{name: x, action: deny, tools: ['*(path ~ "secret/*")']}`,
			allowed: "src/y|secrets/x|" + dir + "/src/y|/elsewhere/secret/x|src/../y",
			refused: "secret/x|./secret/x|secret//x|a/../secret/x|" + dir + "/secret/x|" + dir + "//./secret/x|link/x|./link/y|src/x|" + dir + "/link/x|src/../secret/x",
		},
		"deny of an absolute path": {
			rule:    `{name: x, action: deny, tools: ['*(path ~ "` + dir + `/secret/*")']}`,
			allowed: "src/y|/elsewhere/secret/x",
			refused: "secret/x|link/x|" + dir + "/secret/x|" + dir + "/./secret/x",
		},
		"deny by an expression": {
			rule:    `{name: x, action: deny, tools: [read], when: 'arguments.path.startsWith("secret/")'}`,
			allowed: "src/y|" + dir + "/src/y",
			refused: "secret/x|./secret/x|" + dir + "/secret/x|link/x|src/x",
		},
		"deny of all others": {
			rule:    `{name: x, action: deny, tools: ['*(path !~ "src/*")']}`,
			allowed: "src/y|./src/y|" + dir + "/src/y",
			refused: "secret/x|src/x|link/x|src/../y|src/out/passwd|/etc/passwd",
		},
		"a list": {
			rule:    `{name: x, action: deny, tools: ['*(paths[*] ~ "secret/*")']}`,
			allowed: "src/y",
			refused: "secret/x|link/x|" + dir + "/secret/x",
		},
	}
	for name, tt := range tests {
		for want, list := range map[string]string{"allow": tt.allowed, "deny": tt.refused} {
			for p := range strings.SplitSeq(list, "|") {
				rules := "rules:\n  - {name: all, action: allow, tools: [read]}\n  - " + tt.rule + "\n"
				if got := ruledPath(t, rules, all.paths, p); got != want {
					t.Errorf("%s: %q: %s, want %s", name, p, got, want)
				}
			}
		}
	}
	for _, rule := range []string{
		`{name: x, action: allow, tools: ["read(src/*)"]}`, `{name: x, action: allow, tools: ["read(` + dir + `/src/*)"]}`, `{name: x, action: allow, tools: ['read(path !~ "secret/*", path ~ "s*")']}`,
		`{name: x, action: allow, tools: [read], when: 'arguments.path.startsWith("src/")'}`,
	} {
		for p, want := range map[string]string{
			"src/y": "allow", "./src/y": "allow", dir + "/src/y": "allow", "src/x": "ask", "src/out/passwd": "ask", "link/x": "ask", "secret/x": "ask", "src/../secret/x": "ask", "/etc/passwd": "ask",
		} {
			if strings.Contains(rule, "!~") && p == dir+"/src/y" {
				continue
			}
			if got := ruledPath(t, "rules:\n  - "+rule+"\n", all.paths, p); got != want {
				t.Errorf("%s: %q: %s, want %s", rule, p, got, want)
			}
		}
	}
}

// ruledPath returns the result of the rules for a call with a path, once as a single argument and once in a list.
func ruledPath(t *testing.T, rules string, paths permission.Paths, p string) string {
	t.Helper()
	return verdictOf(t, rules, permission.Config{Paths: paths}, &hook.Input{
		Descriptor: &tool.Descriptor{ID: "read", Parameters: []byte(`{"properties":{"path":{"type":"string"},"paths":{"type":"array"}},"required":["path"]}`)},
		Arguments:  typed.Args(map[string]any{"path": p, "paths": []string{"a", p}}),
	})
}

// ruled returns the result of the rules for a command.
func ruled(t *testing.T, rules, command, run string) string {
	t.Helper()
	return verdictOf(t, rules, permission.Config{Commands: commands()}, &hook.Input{
		Descriptor: &tool.Descriptor{ID: "bash", Parameters: []byte(`{"properties":{"command":{"type":"string"}},"required":["command"]}`)},
		Arguments:  typed.Args(map[string]any{"command": command}), Run: tool.Run{ID: run},
	})
}

func verdictOf(t *testing.T, rules string, cfg permission.Config, in *hook.Input) string {
	t.Helper()
	var err error
	if cfg.Rules, err = permission.Parse("rules.yaml", []byte(rules)); err != nil {
		t.Fatal(err)
	}
	in.Caller = tool.Principal{Subject: "agent", Roles: []string{"caller"}}
	v, err := permission.New(cfg).Check(t.Context(), in)
	switch {
	case err != nil:
		t.Fatalf("%s: %v", in.Arguments.Text(), err)
	case v.Result().IsError():
		return "deny"
	case v.Kind() == hook.KindSuspend:
		return "ask"
	}
	return "allow"
}
