package secret_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/secret"
)

func TestMain(m *testing.M) {
	sandbox.Help()
	goleak.VerifyTestMain(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A site is a resolver. It records the calls of Redact and Refused.
type site struct {
	*secret.Resolver
	mu       sync.Mutex
	redacted []string
	refused  []string
	deny     error
}

func (s *site) redactedValues() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.redacted, " ")
}

func (s *site) reasons() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.refused, "\n")
}

func newSite(t *testing.T, secrets ...secret.Secret) *site {
	t.Helper()
	runner, err := sandbox.New(sandbox.Config{Owner: "secret-tests", StateDir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { must(t, runner.Close()) })
	s := &site{}
	s.Resolver, err = secret.New(secret.Config{
		Secrets: secrets, Start: runner,
		Lookup: func(name string) (string, bool) { return "value of " + name, name != "UNSET" },
		Redact: func(name, value string) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.redacted = append(s.redacted, name+"="+value)
			return s.deny
		},
		Refused: func(use secret.Use, name string, why error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refused = append(s.refused, name+" for "+use.Tool+": "+why.Error())
		},
	})
	must(t, err)
	return s
}

func get(t *testing.T, s *site, name string) (string, error) {
	t.Helper()
	return s.Resolve(t.Context(), "ns", "tool", "env.X", name)
}

func anyone() []secret.Allow { return []secret.Allow{{Tools: []string{"*"}}} }

func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	must(t, os.Chmod(path, mode))
	return path
}

// script returns the path of a program with this body.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o600))
	must(t, os.Chmod(path, 0o700))
	return path
}

func TestEntitlement(t *testing.T) {
	t.Parallel()
	s := newSite(t,
		secret.Secret{Name: "nobody", Env: "NOBODY"},
		secret.Secret{Name: "deploy", Env: "DEPLOY", Allow: []secret.Allow{
			{Namespaces: []string{"prod-*", "stage"}, Tools: []string{"deploy_*"}, Parameters: []string{"env.TOKEN", "env.OTHER_?"}},
			{Tools: []string{"audit"}},
		}},
		secret.Secret{Name: "one-letter", Env: "ONE", Allow: []secret.Allow{{Namespaces: []string{"?"}, Tools: []string{"*"}}}},
		secret.Secret{Name: "all", Env: "ALL", Allow: []secret.Allow{{Namespaces: []string{"*"}, Tools: []string{"*"}, Parameters: []string{"*"}}}},
	)
	tests := []struct {
		namespace, tool, parameter, name string
		ok                               bool
	}{
		{"prod-eu", "deploy_app", "env.TOKEN", "deploy", true},
		{"stage", "deploy_app", "env.OTHER_1", "deploy", true},
		{"stage", "deploy_app", "env.OTHER_12", "deploy", false},
		{"prod", "deploy_app", "env.TOKEN", "deploy", false},
		{"prod-eu", "deploy", "env.TOKEN", "deploy", false},
		{"prod-eu", "deploy_app", "env.PATH", "deploy", false},
		{"anything", "audit", "any", "deploy", true},
		{secret.Everywhere, "audit", "any", "deploy", true},
		{secret.Everywhere, "deploy_app", "env.TOKEN", "deploy", false},
		{"a", "tool", "", "one-letter", true},
		{secret.Everywhere, "tool", "", "one-letter", false}, // Not entitled, although the pattern "?" matches the text "*".
		{secret.Everywhere, "tool", "", "all", true},
		{"a/b", "x/y", "p/q", "all", true},
		{"ns", "tool", "env.X", "nobody", false},
		{"ns", "tool", "env.X", "unknown", false},
	}
	for _, tt := range tests {
		value, err := s.Resolve(t.Context(), tt.namespace, tt.tool, tt.parameter, tt.name)
		if (err == nil) != tt.ok || tt.ok && !strings.HasPrefix(value, "value of ") {
			t.Errorf("%+v: %q, %v", tt, value, err)
		}
		var not *secret.NotAvailableError
		if !tt.ok && (!errors.As(err, &not) || err.Error() != "secret "+tt.name+" is not available to this tool") {
			t.Errorf("%+v: the tool gets %v", tt, err)
		}
	}
	for _, want := range []string{"no such secret is configured", `no allow entry of the secret entitles tool "deploy", parameter "env.TOKEN" in namespace "prod-eu"`} {
		if !strings.Contains(s.reasons(), want) {
			t.Errorf("the operator does not get %q:\n%s", want, s.reasons())
		}
	}
	if strings.Contains(s.redactedValues(), "NOBODY") {
		t.Error("a secret was read that nobody may have")
	}
}

func TestAvailable(t *testing.T) {
	t.Parallel()
	s := newSite(t, secret.Secret{Name: "s", Env: "UNSET", Allow: []secret.Allow{{Namespaces: []string{"a"}, Tools: []string{"t"}, Parameters: []string{"p"}}}})
	for _, tt := range []struct {
		namespace, tool, name string
		ok                    bool
	}{{"a", "t", "s", true}, {"b", "t", "s", false}, {"a", "u", "s", false}, {"a", "t", "other", false}} {
		if err := s.Available(tt.namespace, tt.tool, tt.name); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(fifo, 0o600))
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(write(t, "through a link\n", 0o400), link))
	tests := []struct{ name, path, value, why string }{
		{"plain", write(t, "of a file\r\n", 0o600), "of a file", ""},
		{"two lines", write(t, "of two\nlines\n\n", 0o400), "of two\nlines", ""},
		{"longest", write(t, strings.Repeat("x", secret.MaxValue)+"\n", 0o600), strings.Repeat("x", secret.MaxValue), ""},
		{"link", link, "through a link", ""}, // Kubernetes mounts secrets as links
		{"too long", write(t, strings.Repeat("x", secret.MaxValue+1), 0o600), "", "more than"},
		{"short", write(t, "seven77\n", 0o600), "", "fewer than 8"},
		{"nul", write(t, "with a \x00 inside", 0o600), "", "NUL"},
		{"group", write(t, "for the group", 0o640), "", "chmod 600"},
		{"others", write(t, "for others", 0o604), "", "chmod 600"},
		{"writable", write(t, "written by others", 0o602), "", "chmod 600"},
		{"pipe", fifo, "", "not a regular file"},
		{"directory", t.TempDir(), "", "not a regular file"},
		{"none", filepath.Join(t.TempDir(), "none"), "", "no such file"},
	}
	for _, tt := range tests {
		s := newSite(t, secret.Secret{Name: "s", File: tt.path, Allow: anyone()})
		value, err := get(t, s, "s")
		if value != tt.value || (err == nil) != (tt.why == "") || !strings.Contains(s.reasons(), tt.why) {
			t.Errorf("%s: %q, %v; the operator got %s", tt.name, value, err, s.reasons())
		}
		if tt.why == "" && s.redactedValues() != "s="+tt.value {
			t.Errorf("%s: the filter got %q", tt.name, s.redactedValues())
		}
	}
}

// TestRotation checks that the new value of a replaced file is used at once, and that Redact gets the new value first. If Redact returns an
// error, no use may get the value.
func TestRotation(t *testing.T) {
	t.Parallel()
	path := write(t, "the first", 0o600)
	s := newSite(t, secret.Secret{Name: "s", File: path, Allow: anyone()})
	for range 2 {
		if v, err := get(t, s, "s"); v != "the first" || err != nil {
			t.Fatal(v, err)
		}
	}
	must(t, os.WriteFile(path, []byte("the second"), 0o600))
	if v, err := get(t, s, "s"); v != "the second" || err != nil {
		t.Fatal(v, err)
	}
	if s.redactedValues() != "s=the first s=the second" {
		t.Errorf("the filter got %q", s.redactedValues())
	}
	s.deny = errors.New("no room")
	must(t, os.WriteFile(path, []byte("the third"), 0o600))
	if v, err := get(t, s, "s"); v != "" || err == nil || !strings.Contains(s.reasons(), "no room") {
		t.Errorf("what the filter does not know was handed out: %q, %v", v, err)
	}
}

func TestEnv(t *testing.T) {
	t.Parallel()
	s := newSite(t, secret.Secret{Name: "set", Env: "SET", Allow: anyone()}, secret.Secret{Name: "unset", Env: "UNSET", Allow: anyone()})
	if v, err := get(t, s, "set"); v != "value of SET" || err != nil {
		t.Error(v, err)
	}
	if v, err := get(t, s, "unset"); v != "" || err == nil || !strings.Contains(s.reasons(), "UNSET is not set") {
		t.Error(v, err, s.reasons())
	}
}

// TestCommand runs real commands. It checks that the output of a command is cached and shared by concurrent uses.
func TestCommand(t *testing.T) {
	t.Parallel()
	count := filepath.Join(t.TempDir(), "count")
	s := newSite(t,
		secret.Secret{Name: "s", Command: []string{script(t, `echo x >> "$COUNT"; sleep 0.1; env | cut -d= -f1 | sort | tr '\n' ' '; printf "%s-%s\n" "$1" "$(wc -l < "$COUNT")"`), "argument"}, Variables: []string{"COUNT=" + count}, Allow: anyone()},
		secret.Secret{Name: "fails", Command: []string{script(t, "echo printed-on-the-way; echo canary-on-stderr >&2; exit 3")}, Allow: anyone()},
		secret.Secret{Name: "endless", Command: []string{script(t, "while :; do echo 0123456789abcdef0123456789abcdef; done")}, Allow: anyone()},
		secret.Secret{Name: "late", Command: []string{script(t, "sleep 60")}, Timeout: time.Second, Allow: anyone()},
		secret.Secret{Name: "missing", Command: []string{"/no/such/program"}, Allow: anyone()},
	)
	want := "COUNT LANG PATH PWD TOOLD_CALL argument-1"
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if v, err := get(t, s, "s"); v != want || err != nil {
				t.Errorf("%q, %v", v, err)
			}
		})
	}
	for name, why := range map[string]string{"fails": "exit code 3", "endless": "more than 16384 bytes", "late": "did not end within 1s", "missing": "no such file"} {
		all.Go(func() {
			if v, err := get(t, s, name); v != "" || err == nil || strings.Contains(err.Error(), why) {
				t.Errorf("%s: %q, %v", name, v, err)
			}
			if !strings.Contains(s.reasons(), why) {
				t.Errorf("%s: the operator got\n%s", name, s.reasons())
			}
		})
	}
	all.Wait()
	if r := s.reasons(); strings.Contains(r, "printed-on-the-way") || strings.Contains(r, "canary-on-stderr") {
		t.Errorf("what a command printed is reported:\n%s", r)
	}
	s.Check(t.Context()) // runs the command again
	if v, err := get(t, s, "s"); v != strings.Replace(want, "1", "2", 1) || err != nil {
		t.Errorf("after a check %q, %v", v, err)
	}
}

// TestCommandCancelled checks that a use stops waiting for a command when its call ends, and that the next use starts the command again.
func TestCommandCancelled(t *testing.T) {
	t.Parallel()
	flag := filepath.Join(t.TempDir(), "flag")
	s := newSite(t, secret.Secret{Name: "s", Command: []string{script(t, `[ -e "$FLAG" ] || { : > "$FLAG"; sleep 60; }; echo the-second-try`)}, Variables: []string{"FLAG=" + flag}, Allow: anyone()})
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the call was cancelled")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, err := s.Resolve(ctx, "ns", "tool", "env.X", "s"); !errors.Is(err, gone) {
				t.Errorf("%v", err)
			}
		})
	}
	for _, err := os.Stat(flag); err != nil; _, err = os.Stat(flag) {
		time.Sleep(time.Millisecond)
	}
	cancel(gone)
	all.Wait()
	if v, err := get(t, s, "s"); v != "the-second-try" || err != nil {
		t.Errorf("%q, %v; %s", v, err, s.reasons())
	}
	if s.reasons() != "" {
		t.Errorf("a cancelled call is reported as refused: %s", s.reasons())
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	s := newSite(t, secret.Secret{Name: "db", Env: "DB", Allow: anyone()}, secret.Secret{Name: "loop", Env: "secret://db", Allow: anyone()})
	for text, want := range map[string]string{
		"":                                    "",
		"plain":                               "plain",
		"Bearer secret://db":                  "Bearer value of DB",
		"u:secret://db@h/secret":              "u:value of DB@h/secret",
		"secret://dbsecret://db":              "",                        // a secret named dbsecret does not exist
		"secret://db.secret://db":             "value of DB.value of DB", // a dot ends the name
		"secret://loop":                       "value of secret://db",    // a reference in a value is not expanded
		"SECRET://db":                         "SECRET://db",
		"secret:/db":                          "secret:/db",
		"secret://":                           "",
		"secret://-x":                         "",
		"secret://" + strings.Repeat("x", 65): "",
	} {
		got, err := s.Expand(t.Context(), "ns", "tool", "p", text)
		if got != want || (err != nil) != (want == "" && text != "") {
			t.Errorf("%q became %q, %v; want %q", text, got, err, want)
		}
	}
	if names, err := secret.References("secret://b, secret://a and secret://b"); err != nil || strings.Join(names, " ") != "b a" {
		t.Errorf("%q, %v", names, err)
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	good := secret.Secret{Name: "s", Env: "S"}
	change := func(f func(*secret.Secret)) secret.Secret { s := good; f(&s); return s }
	for want, s := range map[string]secret.Secret{
		"want a name":         change(func(s *secret.Secret) { s.Name = "a.b" }),
		"one of file":         change(func(s *secret.Secret) { s.File = "/x" }),
		"not absolute":        {Name: "s", File: "x"},
		"not a variable name": {Name: "s", Env: "A=B"},
		"absolute path":       {Name: "s", Command: []string{"vault"}},
		"require command":     change(func(s *secret.Secret) { s.Cache = time.Minute }),
		"NAME=value":          {Name: "s", Command: []string{"/x"}, Variables: []string{"HOME"}},
		"timeout":             {Name: "s", Command: []string{"/x"}, Timeout: time.Hour},
		"cache":               {Name: "s", Command: []string{"/x"}, Cache: time.Millisecond},
		"requires tools":      change(func(s *secret.Secret) { s.Allow = []secret.Allow{{}} }),
		"pattern":             change(func(s *secret.Secret) { s.Allow = []secret.Allow{{Tools: []string{"["}}} }),
	} {
		if err := secret.Check([]secret.Secret{s}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if err := secret.Check([]secret.Secret{good, good}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Error(err)
	}
}

func TestListAndSwap(t *testing.T) {
	t.Parallel()
	s := newSite(t, secret.Secret{Name: "b", Env: "UNSET"}, secret.Secret{Name: "a", Env: "A", Allow: anyone()}, secret.Secret{Name: "c", Command: []string{"/no/such/program", "canary"}})
	if problems := s.Warm(t.Context()); len(problems) != 1 || problems["b"] == nil || s.redactedValues() != "a=value of A" {
		t.Errorf("%v; redacted %q", problems, s.redactedValues())
	}
	list := s.List()
	if len(list) != 3 || list[0].Name != "a" || list[0].Problem != nil || list[0].Read.IsZero() || list[1].Problem == nil || !list[2].Read.IsZero() || list[2].Place != "/no/such/program" {
		t.Errorf("%+v", list)
	}
	if list = s.Check(t.Context()); list[2].Problem == nil || list[2].Backend != "command" {
		t.Errorf("%+v", list)
	}
	if err := s.Swap([]secret.Secret{{Name: "bad"}}); err == nil || len(s.List()) != 3 {
		t.Error(err)
	}
	must(t, s.Swap([]secret.Secret{{Name: "new", Env: "NEW", Allow: anyone()}}))
	if _, err := get(t, s, "a"); err == nil {
		t.Error("a removed secret is handed out")
	}
	if v, err := get(t, s, "new"); v != "value of NEW" || err != nil {
		t.Error(v, err)
	}
}

func FuzzReferences(f *testing.F) {
	for _, text := range []string{"", "secret://a", "x secret://a-b_c.secret://D", "secret://", "secret://secret://"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		names, err := secret.References(text)
		if err == nil && (len(names) > 0) != strings.Contains(text, secret.Scheme) {
			t.Errorf("%q has %q", text, names)
		}
		for _, name := range names {
			if !secret.ValidName(name) || !strings.Contains(text, secret.Scheme+name) {
				t.Errorf("%q has %q", text, name)
			}
		}
	})
}
