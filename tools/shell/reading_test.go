package shell_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
	"github.com/toold-dev/toold/tools/shell"
)

// Some commands of the list of readers can do more than read, because of an option, an operand or a terminal: they write, run a program or
// reach another machine. The test checks that they then do not count as read-only.
func TestT123ReadersThatWrite(t *testing.T) {
	x := bash(t, shell.Config{Exec: script{}, Dir: "/srv/ws"})
	for _, command := range []string{
		"nohup cat pay.txt", "sort -o a b", "sort --output=a b", "sort --outp a b", "sort -T. a", "sort --compress-program=./x a", "uniq a b", "uniq a*", "uniq -c a b",
		"find . -fprint a", "find . -fprint0 a", "find . -fprintf a x", "find . -fls a", "find . -delete", "find . -exec touch a ;", "find . -okdir touch a ;",
		"git log --output=a", "git diff --output a", "git log --outp=a", "git show --ext-diff", "git log --format=%G?", "git log --pretty=format:%GK", "git log --format=%+GK", "git log '--format=% GG'", "git for-each-ref --format='%(*signature)'", "git for-each-ref --sort=-signature:key", "git log --show-signature",
		"git for-each-ref --format='%(signature)'", "git grep -O x", "git branch x", "git tag x", "git reflog expire --all", "git stash", "git config a.b c", "git -c core.pager=x log",
		"tree -o a", "tree -R -H . -L 1", "file -C -m a", "file -p a", "file --preserve-date a", "base64 -o a b", "date -s 0", "hostname x", "tee a", "sed -i p a", "sed 'w a' b", "sed 's/a/b/w c' d",
		"awk '{print > \"a\"}' b", "awk -i inplace 1 a", "rg --pre ./x a", "fd -x touch", "fd --exec-batch touch", "jq -n x > a", "printf '12%n' PATH", `printf "a$x" PATH`, "printf -v PATH x", "read PATH",
		"jq -n env", "jq -n '$ENV.X'", "jq -nf a", "jq --from-f a b", "jq 'import \"a\" as a; .' b", "date --file=/etc/shadow", "file -f a",
		"make version", "bash version", "python3 version", "gzip version", "ssh version", "curl version", "psql version", "go version", "yarn --version", "pnpm --version", "cargo --version",
		"mysql -version", "zip -version", "env -u GIT_CONFIG_COUNT git status", "env -i git status", "busybox sort -o a b", "stdbuf -oL sort -o a b", "echo x >> a", "cat <> a", ": ${PATH:=x}",
	} {
		if got := assess(x, command); got.Mutability == tool.ReadOnly {
			t.Errorf("%q only reads: %+v", command, got)
		}
	}
	terminal := typed.Args(object{"command": "nohup cat pay.txt", "pty": object{}, "input": false})
	if got := x.(tool.Assessor).Assess(terminal); got.Mutability == tool.ReadOnly {
		t.Errorf("nohup on a terminal only reads: %+v", got)
	}
	for _, command := range []string{"sort --files0-from=list", "wc --files0-from list", "du --files0=list", "find -files0-from list", "sha256sum -c list", "md5sum --check list", "set", "export", "readonly"} {
		if got := assess(x, command); got.Tier == tool.Observe {
			t.Errorf("%q reads in the working directory alone: %+v", command, got)
		}
	}
}

// The test checks that files of a workspace cannot cause a read-only command to start a program. A directory of the workspace may look like
// a bare repository and name programs in its configuration.
func TestT123DirectoryThatPosesAsARepository(t *testing.T) {
	dir := t.TempDir()
	marker := filepath.Join(dir, "ran")
	x := bash(t, shell.Config{Dir: dir})
	for _, command := range []string{
		"git init -q --bare x && echo a > f && git --git-dir=x --work-tree=. add f && echo b > f",
		"printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = ..\\n\\tfsmonitor = touch " + marker + " #\\n\\tpager = touch " + marker + "\\n[diff]\\n\\texternal = touch " + marker + " #\\n' > x/config",
		"cd x && git diff",
		"cd x && git status", "git -C x status", "git -C x log", "cd x && git diff --stat",
	} {
		run(t, x, object{"command": command})
	}
	run(t, x, object{"command": "cd x && git ls-files", "pty": object{}, "input": false})
	// A real repository may name programs too. The programs of these two settings are not started.
	run(t, x, object{"command": "git init -q y && git -C y -c user.name=x -c user.email=x commit -q --allow-empty -m x && " +
		"printf '[core]\\n\\tfsmonitor = touch " + marker + " #\\n\\tpager = touch " + marker + "\\n' >> y/.git/config"})
	run(t, x, object{"command": "git -C y status && git -C y log", "pty": object{}, "input": false})
	if _, err := os.Stat(marker); err == nil {
		t.Error("git ran what a directory of the workspace names")
	}
}
