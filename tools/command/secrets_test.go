package command_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tool"
)

// TestSecrets checks that the secrets of the manifest, and no others, are resolved when an attempt starts. A reference in an argument stays
// plain text.
func TestSecrets(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v := &vault{values: map[string]string{"github": "s3cret"}}
	s.cfg.Secrets = v
	one := newClient(t, s.load(`id: x
parameters: {properties: {a: {type: string}}}
run: {program: ./run, args: ["{a}"], environment: {ARG_A: "{a}"}, secrets: {GITHUB_TOKEN: "secret://github"}}
`, "#!/bin/sh\necho \"$GITHUB_TOKEN $1 $ARG_A\"\n"))
	if d := one.tool.Descriptor(); len(d.RequiredSecrets) != 1 || d.RequiredSecrets[0] != "github" {
		t.Errorf("%v", d.RequiredSecrets)
	}
	c := &tool.Call{Arguments: arguments(t, `{"a":"b"}`)}
	if _, err := one.tool.(tool.Describer).Describe(t.Context(), c); err != nil || len(v.asked) != 0 {
		t.Errorf("asked for %q before the call ran, %v", v.asked, err)
	}
	if got := one.text(`{"a":"secret://github"}`); got != "s3cret secret://github secret://github\n" {
		t.Errorf("%q", got)
	}
	if len(v.asked) != 1 || v.asked[0] != "default x env.GITHUB_TOKEN github" {
		t.Errorf("asked for %q", v.asked)
	}
	delete(v.values, "github")
	_, err := one.run("{}")
	if e := tool.AsError(err); e.Reason != "SECRET_UNAVAILABLE" || !errors.Is(err, tool.ErrNotRun) || strings.Contains(e.Message, "there is no") {
		t.Errorf("%v", err)
	}
}

// The test checks a secret that a program reads from a file descriptor, whose number is in a variable. The program can read the value once
// and then gets end of file. The value is in no variable and no argument. A child process without the file descriptor does not get the
// value.
func TestSecretByDescriptor(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"default", "none"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			v := &vault{values: map[string]string{"github": "s3cret-of-github", "other": "s3cret-of-other"}}
			s.cfg.Secrets = v
			one := newClient(t, s.load(`id: x
run:
  program: ./run
  profile: `+profile+`
  secrets: {TOKEN_FD: {descriptor: "secret://github"}, PLAIN: "secret://other", OTHER_FD: {descriptor: "secret://other"}}
`, `#!/bin/bash
read -r -d '' token <&$TOKEN_FD
other=$(cat /dev/fd/$OTHER_FD)
echo "$TOKEN_FD $OTHER_FD $token $other $PLAIN"
read -r again <&$TOKEN_FD || echo "end of file"
tr '\0' '\n' < /proc/$$/environ | grep -a s3cret
grep -a s3cret /proc/$$/cmdline
env - bash -c 'cat <&'$TOKEN_FD' /proc/'$$'/fd/'$TOKEN_FD'; echo "the child has nothing"'
`))
			if d := one.tool.Descriptor(); strings.Join(d.RequiredSecrets, " ") != "github other" {
				t.Errorf("%v", d.RequiredSecrets)
			}
			want := "4 3 s3cret-of-github s3cret-of-other s3cret-of-other\nend of file\nPLAIN=s3cret-of-other\nthe child has nothing\n"
			for range 2 { // Each attempt gets the value.
				if got := one.text("{}"); got != want {
					t.Errorf("%q", got)
				}
			}
			if got := strings.Join(v.asked[:3], ", "); got != "default x descriptor.OTHER_FD other, default x env.PLAIN other, default x descriptor.TOKEN_FD github" {
				t.Errorf("asked for %q", got)
			}
			delete(v.values, "github")
			_, err := one.run("{}")
			if e := tool.AsError(err); e.Reason != "SECRET_UNAVAILABLE" || !errors.Is(err, tool.ErrNotRun) {
				t.Errorf("%v", err)
			}
		})
	}
}

// The test checks that a value of the maximum size arrives whole. A program that does not read such a value must not block the daemon.
func TestSecretByDescriptorAtLength(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cfg.Secrets = &vault{values: map[string]string{"key": strings.Repeat("k", 16<<10)}}
	const manifest = "id: x\nrun: {program: ./run, secrets: {KEY_FD: {descriptor: 'secret://key'}}}\n"
	if got := newClient(t, s.load(manifest, "#!/bin/sh\nwc -c <&$KEY_FD\n")).text("{}"); got != fmt.Sprintln(16<<10) {
		t.Errorf("%q", got)
	}
	if got := newClient(t, s.load(manifest, "#!/bin/sh\necho unread\n")).text("{}"); got != "unread\n" {
		t.Errorf("%q", got)
	}
}

// The test checks that a persistent program gets the value when it starts and keeps it for all its calls. When the value changes, the next
// call starts a new program.
func TestHotSecretByDescriptor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v := &vault{values: map[string]string{"key": "old"}}
	s.cfg.Secrets = v
	one := s.load(strings.Replace(hotManifest(""), "program:", "secrets: {KEY_FD: {descriptor: 'secret://key'}}, program:", 1),
		strings.Replace(hot, "n=0\n", "n=0; KEY=$(cat <&$KEY_FD)\n", 1))
	for i, want := range []string{"old", "old", "new"} {
		if i == 2 {
			v.set("key", "new")
		}
		r, err := caller(t, one, "default", fmt.Sprint(i)).run("{}")
		if _, n, key := served(t, r, err); key != want || n != []int{1, 2, 1}[i] {
			t.Errorf("call %d: %s", i, r.Data)
		}
	}
}
