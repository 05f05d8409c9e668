package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// hookProgram writes a program and returns its path.
func hookProgram(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	return path
}

// TestHooksOfCommands: a program decides about the calls that it is asked about, as the configuration of now has it.
func TestHooksOfCommands(t *testing.T) {
	friday := hookProgram(t, "friday", `grep -q '"command":"deploy' || exit 0; echo "not on Fridays" >&2; exit 2`)
	stop := hookProgram(t, "stop", `cat >/dev/null; echo '{"verdict":"block","reason":"stop"}'`)
	p := newPluginSite(t, fmt.Sprintf("hooks:\n  - name: friday\n    command: [%s]\n    match: {tools: [bash]}\n", friday))
	if e := p.call("bash", `{"command":"deploy now"}`).GetError(); e.GetCode() != tooldv1.ErrorCode_ERROR_CODE_DENIED || e.GetMessage() != "not on Fridays" {
		t.Errorf("a call that the hook refuses: %v", e)
	}
	for _, arguments := range []string{`{"command":"true"}`} {
		if e := p.call("bash", arguments).GetError(); e != nil {
			t.Errorf("another call: %v", e)
		}
	}
	if e := p.call("glob", `{"pattern":"deploy*"}`).GetError(); e != nil {
		t.Errorf("another tool: %v", e)
	}
	p.write("hooks:\n  - name: friday\n    command: [/nonexistent]\n")
	if _, err := p.p.admin.Reload(within(t), &tooldv1.ReloadRequest{}); reasonOf(err) != "CONFIG_INVALID" || !strings.Contains(err.Error(), "config:2:5") {
		t.Errorf("a program that is not there: %v", err)
	}
	p.reload("hooks: []\n", "[hooks] []")
	if e := p.call("bash", `{"command":"true # deploy"}`).GetError(); e != nil {
		t.Errorf("without the hook: %v", e)
	}
	p.reload(fmt.Sprintf("hooks:\n  - {name: stop, command: [%s]}\n", stop), "[hooks] []")
	if e := p.call("glob", `{"pattern":"*"}`).GetError(); e.GetMessage() != "Blocked: stop" || !e.GetTerminateRun() {
		t.Errorf("a hook that blocks: %v", e)
	}
}

// TestHookSettings: what is wrong is named with its place, and config show prints a file that means the same.
func TestHookSettings(t *testing.T) {
	program := hookProgram(t, "program", "exit 0")
	for config, want := range map[string]string{
		"hooks:\n  - {name: a}":                                                               "hooks[0]: want either a command or a remote service (",
		"hooks:\n  - name: a b\n    command: [/x]":                                            "toold.yaml:2:11)",
		"hooks:\n  - name: a\n    comand: [/x]":                                               `toold.yaml:3:5: unknown setting "hooks[0].comand"; did you mean "hooks[0].command"?`,
		"hooks:\n  - {name: a, command: [/x], kinds: [gate, fliter]}":                         `hooks[0].kinds: "fliter" is not one of rewrite, gate`,
		"hooks:\n  - {name: a, command: [/x], on_failure: maybe}":                             `hooks[0].on_failure: "maybe" is not one of refuse, allow, block`,
		"hooks:\n  - {name: a, command: [/x], kinds: [after], on_failure: block}":             "block is nothing that a before or after hook can do",
		"hooks:\n  - {name: a, command: [/x], deadline: 1h}":                                  "hooks[0].deadline: 1h is not between",
		"hooks:\n  - {name: a, command: [/x], documents: [x]}":                                `"x" is not RUN/key, THREAD/key or NAMESPACE/key`,
		"hooks:\n  - {name: a, command: [/x], match: {safety: [BAD]}}":                        `"BAD" is not one of READ_ONLY`,
		"hooks:\n  - {name: a, command: [" + program + "]}\n  - {name: a, command: [/x]}":     `hooks[1].name: "a" stands twice`,
		"hooks:\n  - {builtin: permission, command: [/x]}":                                    "nothing goes with it",
		"hooks:\n  - {name: a, command: [/x]}":                                                "/x",
		"hooks:\n  - {name: permission, command: [" + program + "]}":                          `"permission" is the name of a plugin of the daemon`,
		"hooks:\n  - {name: a, command: [x]}":                                                 "hooks[0].command: want the absolute path of a program",
		"hooks:\n  - {name: a, remote: {address: 10.0.0.1}}":                                  `address "10.0.0.1" is neither host:port nor unix:/path`,
		"hooks:\n  - {name: a, remote: {address: 'h:1', ca: /nonexistent}}":                   "/nonexistent",
		"hooks:\n  - {name: a, remote: {address: 'h:1', plaintext: true, server_name: x}}":    "plaintext and TLS exclude each other",
		"hooks:\n  - {name: a, remote: {address: 'h:1'}, kinds: [filter], on_failure: allow}": "what a filter did not look at is never told",
		"hooks:\n  - {builtin: cache}":                                                        `there is no plugin "cache"; there are log, permission`,
		"hooks:\n  - {name: a, command: [" + program + "], env: [NO_SUCH_VARIABLE]}":          "the daemon has no variable NO_SUCH_VARIABLE",
	} {
		cfg, err := load(t, config+"\n", nil)
		if err == nil {
			_, err = check(t.Context(), cfg)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\nerror %v, want %q", config, err, want)
		}
	}
	cfg, err := load(t, "hooks:\n  - {name: a, command: ["+program+", x], kinds: [gate, after], env: [A=b], match: {tools: [b*]}, deadline: 2s, at_once: 3}\n  - builtin: permission\n", nil)
	must(t, err)
	text := configText(cfg)
	again, err := load(t, strings.ReplaceAll(text, hidden, "b"), nil)
	must(t, err)
	if a, b := fmt.Sprint(cfg.Hooks), fmt.Sprint(again.Hooks); a != b || len(cfg.Hooks) != 2 {
		t.Errorf("shown as %s, was %s", b, a)
	}
}

// TestHookOrder: what the list does not name comes first, then everything in its order.
func TestHookOrder(t *testing.T) {
	program := hookProgram(t, "program", "exit 0")
	entry := func(name string) string {
		return "  - {name: " + name + ", command: [" + program + "], kinds: [gate, admit]}\n"
	}
	for config, want := range map[string]string{
		"":                                   "[permission] [ratelimit]",
		"hooks:\n" + entry("a") + entry("b"): "[permission a b] [ratelimit a b]",
		"hooks:\n" + entry("a") + "  - builtin: permission\n":                                      "[a permission] [ratelimit a]",
		"hooks:\n  - builtin: ratelimit\n" + entry("a") + "  - builtin: permission\n" + entry("b"): "[a permission b] [ratelimit a b]",
	} {
		cfg, err := load(t, "ratelimit: [{name: x, calls: 1, per: 1h}]\n"+config, nil)
		must(t, err)
		plugins, err := newPlugins(cfg)
		must(t, err)
		list, err := newOutsiders(cfg, nowhere{}, nil, nil)
		must(t, err)
		set, err := list.arrange(inside(plugins, nil, filterNames(cfg)))
		must(t, err)
		if got := fmt.Sprint(namesOf(set.Gate), namesOf(set.Admit)); got != want {
			t.Errorf("%s: %s, want %s", config, got, want)
		}
	}
}
