package command_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/command"
	"path/filepath"
)

const echo = "id: x\nrun: {program: /bin/echo, "

// The constants using and echoed are the beginning and the end of a manifest with a resource.
const (
	using  = "mildest: {resources: [{kind: room}]}\nassess: [{effects: {"
	echoed = "id: x\nparameters: {properties: {n: {type: string}}}\nrun: {program: /bin/echo, args: ['{n}']}\n"
)

// TestProblems checks that each error in a manifest has its position and says what would be right.
func TestProblems(t *testing.T) {
	s := newSite(t)
	must(t, os.WriteFile(s.workspace+"/p", []byte("#!/bin/sh\n"), 0o755))
	for _, tt := range []struct{ name, manifest, want string }{
		{"empty", "", "1:1: is empty"},
		{"no mapping", "- a\n", "1:1: a manifest is a mapping"},
		{"no YAML", "id: [\n", ":1: is not YAML"},
		{"smaller indentation", "  id: x\n  run: {program: /bin/echo}\nisolation: {profile: none}\n", "1:1: is not YAML after its first lines"},
		{"two documents", "id: x\nrun: {program: /bin/echo}\n---\nid: y\n", "1:1: has more than one document"},
		{"unknown", "id: x\ndescriptio: y\n", `2:1: unknown setting "descriptio"; did you mean "description"?`},
		{"unknown below", "id: x\nrun:\n  program: /bin/echo\n  exit_code: [1]\n", `4:3: unknown setting "run.exit_code"; did you mean "run.exit_codes"?`},
		{"known elsewhere", "name: x\n", `1:1: unknown setting "name": set id, which is the name of the tool`},
		{"twice", "id: x\nid: y\n", "2:1: id is set twice"},
		{"another type", "id: x\nidempotent: maybe\n", "2:13: idempotent: want true or false"},
		{"a list", "id: x\nrun: {program: /bin/echo, args: a}\n", "2:33: run.args: want a list"},
		{"a group", "id: x\nrun: echo\n", "2:6: run: want a mapping of settings"},
		{"alias", "id: x\ncategory: &a b\n", "2:11: category: anchors and aliases are not supported"},
		{"duration", "id: x\ntimeouts: {attempt: 10}\n", "2:21: timeouts.attempt: want a duration such as 30s"},
		{"id", "id: a.b\nrun: {program: /bin/echo}\n", `1:5: id: tool id "a.b": want 1 to 64`},
		{"no program", "id: x\n", "1:1: run.program: is missing"},
		{"PATH is not searched", "id: x\nrun: {program: echo}\n", `2:16: run.program: "echo" is neither an absolute path`},
		{"program is not there", "id: x\nrun: {program: /bin/no-such-program}\n", "2:16: run.program: /bin/no-such-program: no such file"},
		{"program is no program", "id: x\nrun: {program: /etc/passwd}\n", "2:16: run.program: /etc/passwd is not executable"},
		{"program of callers", "id: x\nrun: {program: " + s.workspace + "/p}\n", "is in the workspace, where callers can change it"},
		{"digest", echo + "digest: abc}\n", `2:35: run.digest: "abc" is neither load nor sha256:`},
		{"other digest", echo + "digest: 'sha256:" + strings.Repeat("0", 64) + "'}\n", "has the digest sha256:"},
		{"profile", echo + "profile: other}\n", "2:36: run.profile: there is no profile other"},
		{"placeholder", echo + "args: ['{n']}\n", "2:34: run.args[0]: {n is not a placeholder"},
		{"brace", echo + "args: ['a}']}\n", "2:34: run.args[0]: a } has no matching {"},
		{"no parameter", echo + "args: ['{n}']}\n", "2:34: run.args[0]: {n} is not a parameter; parameters declares none"},
		{"no type", "parameters: {properties: {n: {}}}\n" + echo + "args: ['{n}']}\n", "3:34: run.args[0]: {n} has no type"},
		{"no text", "parameters: {properties: {n: {type: [string, 'null']}}}\n" + echo + "args: ['{n}']}\n", "{n} may be string or null, which has no text form"},
		{"no list", "parameters: {properties: {n: {type: string}}}\n" + echo + "args: ['{n...}']}\n", "{n...} requires a parameter of type array"},
		{"no flag", "parameters: {properties: {n: {type: string}}}\n" + echo + "args: [{flag: --n, if: n}]}\n", `"n" is not a parameter of type boolean`},
		{"nowhere", "parameters: {properties: {n: {type: string}}}\nid: x\nrun: {program: /bin/echo}\n", "1:30: parameters.properties.n: is not used"},
		{"name of an option", "parameters: {properties: {n: {type: string}}}\n" + echo + "args: ['--{n}']}\n", "the name of an option must be fixed text"},
		{"shell", "parameters: {properties: {n: {type: string}}}\nid: x\nrun: {program: /bin/sh, args: [-c, 'echo {n}']}\n", "sh would run the argument as a program"},
		{"shell's option", "parameters: {properties: {n: {type: string}}}\nid: x\nrun: {program: /bin/bash, args: [{option: -ec, value: '{n}'}]}\n", "bash would run the argument as a program"},
		{"persistent text", echo + "persistent: {}}\n", "run.persistent: requires run.output: lines"},
		{"persistent arguments", "parameters: {properties: {n: {type: string}}}\n" + echo + "output: lines, persistent: {}, args: ['{n}']}\n", "receives arguments on standard input"},
		{"assess", "assess: [{when: {a: 1}, effects: {}}]\nid: x\nrun: {program: /bin/echo}\n", "has no effect without mildest"},
		{"assess of nothing", "mildest: {}\nassess: [{effects: {}}]\nid: x\nrun: {program: /bin/echo}\n", "assess[0]: has neither when nor resources"},
		{"resource of a file", using + "resources: [{kind: file, id: '{n}'}]}}]\n" + echoed, `assess[0].effects.resources[0].kind: "file" is for the file tools`},
		{"resource of no kind", using + "resources: [{id: '{n}'}]}}]\n" + echoed, `assess[0].effects.resources[0]: the kind "" of a resource`},
		{"resource of no parameter", using + "resources: [{kind: room, id: '{m}'}]}}]\n" + echoed, "{m} is not a parameter"},
		{"resource beyond mildest", using + "resources: [{kind: desk, id: '{n}'}]}}]\n" + echoed, "mildest does not permit it; add {kind: desk, shared: false} to mildest.resources"},
		{"shared resource beyond mildest", using + "resources: [{kind: room, id: '{n}', shared: true}]}}]\n" + echoed, "add {kind: room, shared: true}"},
		{"resource with a placeholder in mildest", "mildest: {resources: [{kind: room, id: '{n}'}]}\n" + echoed, "mildest.resources[0].id: a placeholder is possible only in an entry of assess"},
		{"effect", "effects: {tier: NONE}\nid: x\nrun: {program: /bin/echo}\n", `1:17: effects.tier: "NONE" is not one of OBSERVE, CONFIRM, ESCALATE`},
		{"no secrets", echo + "secrets: {KEY: 'secret://key'}}\n", "2:36: run.secrets: no secrets are configured"},
		{"no reference", echo + "secrets: {KEY: key}}\n", "2:42: run.secrets.KEY: want a reference such as secret://"},
		{"no descriptor", echo + "secrets: {KEY_FD: {fd: 'secret://key'}}}\n", `2:46: unknown setting "run.secrets.KEY_FD.fd"; known settings: descriptor`},
		{"no reference for a descriptor", echo + "secrets: {KEY_FD: {descriptor: key}}}\n", "2:45: run.secrets.KEY_FD: want a reference such as secret://"},
		{"many descriptors", echo + "secrets: {" + manyDescriptors() + "}}\n", "run.secrets: 9 descriptors exceed the limit of 8"},
		{"reserved variable", echo + "environment: {TOOLD_CALL: a}}\n", "names that begin with TOOLD_ are reserved"},
		{"limit", echo + "limits: {output: -1}}\n", "run.limits.output: -1 is not between 0 and"},
		{"share", echo + "limits: {cpus: many}}\n", "run.limits.cpus: want a number such as 1.5"},
		{"number of JSON", "id: x\nparameters: {default: .inf}\n", "2:23: parameters.default: .inf is not a JSON number"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := s.problem(tt.manifest); !strings.Contains(got, tt.want) || !strings.HasPrefix(got, "tool.yaml:") {
				t.Errorf("%s\nis reported as\n%s\nwant %s", tt.manifest, got, tt.want)
			}
		})
	}
}

// TestResourcesOfACommand checks the resources that an entry of assess names for a call.
func TestResourcesOfACommand(t *testing.T) {
	s := newSite(t)
	one := s.load(`id: book
parameters: {properties: {n: {type: string}, days: {type: array, items: {type: string}}, floor: {type: integer, default: 3}}}
mildest: {resources: [{kind: room}, {kind: day, shared: true}]}
assess:
  - {when: {n: all}, effects: {resources: [{kind: room}]}}
  - {effects: {resources: [{kind: room, id: "{floor}/{n}"}, {kind: day, id: "{days...}", shared: true}]}}
run: {program: /bin/echo, args: ["{n}", "{days...}", "{floor}"]}
`, "")
	many := slices.Repeat([]string{`"d"`}, tool.MaxResources)
	for _, tt := range []struct{ name, args, want string }{
		{"a default and a list", `{"n":"lisbon","days":["a","b"]}`, "[{room 3/lisbon false} {day a true} {day b true}]"},
		{"every room", `{"n":"all","days":["a"]}`, "[{room  false}]"},
		{"a missing argument", `{"n":"lisbon"}`, "[]"},
		{"an id that is not valid", `{"n":"/","days":["a"]}`, "[]"},
		{"too many", `{"n":"lisbon","days":[` + strings.Join(many, ",") + `]}`, "[]"},
	} {
		e := one.(tool.Assessor).Assess(arguments(t, tt.args))
		if got := fmt.Sprint(e.Resources); got != tt.want || e.MilderThan(*one.Descriptor().Mildest) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestManifestOfEverybody(t *testing.T) {
	s := newSite(t)
	path := s.write("tool.yaml", echo+"args: []}\n")
	must(t, os.Chmod(path, 0o666))
	if _, err := command.Load(s.cfg, s.dir, nil); err == nil || !strings.Contains(err.Error(), "chmod o-w") {
		t.Errorf("a manifest that everybody may write is reported as %v", err)
	}
}

func TestTwoToolsOfOneName(t *testing.T) {
	s := newSite(t)
	s.write("a.yaml", echo+"args: []}\n")
	s.write("b.yaml", "id: b\naliases: [x]\nrun: {program: /bin/echo}\n")
	s.write(".c.yaml", "this is no manifest")
	_, err := command.Load(s.cfg, s.dir, nil)
	if err == nil || !strings.Contains(err.Error(), `b.yaml:1:5: id: "x" is already a tool of `+s.dir+"/a.yaml") {
		t.Errorf("%v", err)
	}
}

// TestDescriptor checks that all fields of a descriptor come from the manifest, and that the version changes with the command line.
func TestDescriptor(t *testing.T) {
	s := newSite(t)
	manifest := `id: full
display_name: Full
description: Everything.
category: tests
parameters: {properties: {action: {enum: [list, drop]}, n: {type: number, default: 1.50}}}
result_schema: {type: string}
effects: {mutability: MUTATING, safety: DESTRUCTIVE, tier: ESCALATE}
mildest: {mutability: READ_ONLY, tier: OBSERVE, concurrency_safe: true}
assess:
  - {when: {action: [list, show]}, effects: {mutability: READ_ONLY, tier: OBSERVE, concurrency_safe: true}}
idempotent: true
on_doubt: ask
timeouts: {queue: 5s, attempt: 1m}
max_arguments: 1000
output_budget: 2000
guidance: Use it.
annotations: {a: b}
metadata: {team: c}
aliases: [all]
version: 1.2.0
title: "{action} everything"
kind: SEARCH
run: {program: /bin/echo, args: ["{action}", "{n}"]}
`
	one := s.load(manifest, "")
	d := one.Descriptor()
	if d.ID != "full" || d.DisplayName != "Full" || d.Category != "tests" || !d.Idempotent || d.OnDoubt != tool.OnDoubtAsk || d.Timeouts.Attempt.String() != "1m0s" ||
		d.MaxArguments != 1000 || d.OutputBudget != 2000 || d.Guidance != "Use it." || d.Annotations["a"] != "b" || d.Metadata["team"] != "c" || d.Aliases[0] != "all" ||
		d.RequiredIsolation != tool.IsolationFull || d.RequiredNetwork != "none" || string(d.ResultSchema) != `{"type":"string"}` || d.Mildest == nil {
		t.Errorf("%+v", d)
	}
	if want := `{"additionalProperties":false,"properties":{"action":{"enum":["list","drop"]},"n":{"type":"number","default":1.50}},"type":"object"}`; string(d.Parameters) != want {
		t.Errorf("parameters are %s", d.Parameters)
	}
	if e := one.(tool.Assessor).Assess(arguments(t, `{"action":"list"}`)); e.Mutability != tool.ReadOnly || e.Tier != tool.Observe {
		t.Errorf("a list is assessed as %+v", e)
	}
	if e := one.(tool.Assessor).Assess(arguments(t, `{"action":"drop"}`)); e.Tier != tool.Escalate {
		t.Errorf("a drop is assessed as %+v", e)
	}
	c := &tool.Call{Arguments: arguments(t, `{"action":"drop"}`)}
	shown, err := one.(tool.Describer).Describe(t.Context(), c)
	if err != nil || shown.Title != "drop everything" || shown.Kind != tool.KindSearch || shown.Preview[0].Text != "/bin/echo drop 1.50" {
		t.Errorf("described as %+v, %v", shown, err)
	}
	if again := s.load("# a comment\n"+manifest, "").Descriptor(); again.Version != d.Version || !strings.HasPrefix(d.Version, "1.2.0+") {
		t.Errorf("a comment made %s of %s", again.Version, d.Version)
	}
	if other := s.load(strings.Replace(manifest, `"{n}"]`, `"{n}", more]`, 1), "").Descriptor(); other.Version == d.Version {
		t.Error("another command has the same version: an approval of the one would count for the other")
	}
}

// The test checks that the digest of a tool does not depend on paths. It is the same on every machine with the same manifest, programs and
// profile.
func TestDigestIsIndependentOfPaths(t *testing.T) {
	manifest := "id: t\nversion: 1.2.0\nrun:\n  program: ./run\n  digest: load\n"
	digests := map[string]string{} // digests of variants of the tool; the key says what differs from the first
	digest := func(script string, change func(*sandbox.Policy)) string {
		s := newSite(t)
		must(t, os.WriteFile(filepath.Join(s.dir, "run"), []byte(script), 0o755))
		s.cfg.Policy = func(_, _ string) (*sandbox.Policy, error) {
			p := &sandbox.Policy{Workspace: s.workspace, Read: []string{s.dir}, Hide: []string{filepath.Dir(s.dir)}}
			change(p)
			return p, nil
		}
		d, err := s.load(manifest, "").Descriptor().Digest()
		must(t, err)
		return d
	}
	same := func(*sandbox.Policy) {}
	digests["the place"] = digest("#!/bin/sh\n", same)
	if first := digest("#!/bin/sh\n", same); digests["the place"] != first {
		t.Errorf("two machines have the digests %s and %s", first, digests["the place"])
	}
	digests["the program"] = digest("#!/bin/sh\nrm -rf .\n", same)
	digests["the network"] = digest("#!/bin/sh\n", func(p *sandbox.Policy) { p.Network = sandbox.NetworkOpen })
	digests["the hosts"] = digest("#!/bin/sh\n", func(p *sandbox.Policy) { p.Network, p.Hosts = sandbox.NetworkProxy, []string{"example.com"} })
	digests["the limits"] = digest("#!/bin/sh\n", func(p *sandbox.Policy) { p.Limits.Memory = 1 << 30 })
	seen := map[string]string{}
	for what, d := range digests {
		if other := seen[d]; other != "" {
			t.Errorf("%s and %s make no difference", what, other)
		}
		seen[d] = what
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(echo + "args: ['{n}']}\n"))
	f.Add([]byte("id: x\nparameters: {properties: {n: {type: integer}}}\nrun: {program: /bin/echo, args: [{option: -n, value: '{n:json}'}, '--', 'a{{{n}'], output: lines, persistent: {}}\n"))
	f.Add([]byte("id: &a x\nassess: [{when: {a: [1, .inf]}}]\nrun: {<<: *a}\n"))
	dir := f.TempDir()
	s := &site{workspace: dir + "/work"}
	cfg := newSiteConfig(s)
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := command.ParseForTest(cfg, "fuzz.yaml", text)
		if err != nil {
			if !strings.Contains(err.Error(), "fuzz.yaml") {
				t.Errorf("a problem without its file: %v", err)
			}
			return
		}
		one := set.Tools()[0]
		if tool.ValidName(one.Descriptor().ID) != nil {
			t.Errorf("%q names a tool", one.Descriptor().ID)
		}
		_ = one.(tool.Validator).Validate(tool.NewArguments(`{"n":"-x"}`, map[string]any{"n": "-x"}))
	})
}

func manyDescriptors() string {
	var list []string
	for i := range sandbox.MostHanded + 1 {
		list = append(list, fmt.Sprintf("K%d: {descriptor: 'secret://key'}", i))
	}
	return strings.Join(list, ", ")
}
