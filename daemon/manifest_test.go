package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/cli"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// manifests writes files into a directory and returns the flag that names it. It makes scripts executable.
func (s *site) manifests(files map[string]string) (dir string, flag string) {
	s.t.Helper()
	dir = filepath.Join(filepath.Dir(s.rules), "tools")
	must(s.t, os.MkdirAll(dir, 0o755))
	for name, text := range files {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		must(s.t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
	}
	return dir, "--command-directory=" + dir
}

// runManifest starts a call and returns its current record.
func (p *proc) runManifest(tool, id, arguments string) *tooldv1.Call {
	p.t.Helper()
	got, err := p.calls.CallTool(within(p.t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: tool, CallId: "manifest-tests-call-" + id, Arguments: arguments}})
	must(p.t, err)
	return got.GetCall()
}

// answer decides the open question of a call and returns the current record of the call.
func (p *proc) answer(c *tooldv1.Call, decision, result string) *tooldv1.Call {
	p.t.Helper()
	stream, err := p.calls.ResumeTool(within(p.t), &tooldv1.ResumeToolRequest{
		SuspensionId: c.GetSuspension().GetSuspensionId(), Decision: &tooldv1.Decision{
			DecisionId: "decision-manifest-" + decision, Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, Result: result, ExpectedDigest: c.GetSuspension().GetDigest(),
		},
	})
	follow(p.t, stream, err).last(p.t)
	got, err := p.calls.GetCall(within(p.t), &tooldv1.GetCallRequest{CallId: c.GetCallId()})
	must(p.t, err)
	return got.GetCall()
}

const observed = "effects: {mutability: READ_ONLY, tier: OBSERVE}\n"

// A tool of a manifest appears in the list, passes the gates and runs isolated; its record has the isolation facts.
func TestManifests(t *testing.T) {
	s := newSite(t, "")
	_, flag := s.manifests(map[string]string{
		"words.yaml": "id: words\n" + observed + `parameters: {properties: {text: {type: string}}, required: [text]}
run: {program: /bin/echo, args: ["{text}"]}
`,
		"shape.yaml": "id: shape\n" + observed + `run: {program: ./shape.sh, output: json}
result_schema: {type: object, required: [secret]}
`,
		"shape.sh": "#!/bin/sh\nprintf '{\"secret\": \"%s\", \"n\": 1.50}' \"$(cat " + s.data + "/token 2>&1 | tail -c 20)\"\n",
		"write.yaml": `id: touch
parameters: {properties: {name: {type: string}}, required: [name]}
run: {program: /usr/bin/touch, args: ["{name:path}"]}
`,
		"other.yaml": "id: other\n" + observed + "run: {program: /bin/true, profile: none}\n",
	})
	p := s.start(flag)
	c := p.runManifest("words", "words", `{"text":"hello $(id) `+"`id`"+`"}`)
	if c.GetResult().GetMessage() != "hello $(id) `id`\n" || c.GetIsolation().GetRequired() != tooldv1.IsolationLevel_ISOLATION_LEVEL_FULL || !held(c.GetIsolation(), "fs_read") {
		t.Errorf("%v", c)
	}
	c = p.runManifest("shape", "shape", "")
	if c.GetResult().GetData() != `{"secret": "h file or directory", "n": 1.50}` {
		t.Errorf("%v", c.GetResult())
	}
	c = p.runManifest("touch", "touch", `{"name":"made"}`)
	if c.GetSuspension().GetAction() != "approval" || c.GetDescription().GetPreview()[0].GetText() != "/usr/bin/touch made" {
		t.Fatalf("a mutating program runs with %v", c)
	}
	if c = p.answer(c, "0001", ""); c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		t.Errorf("%v", c)
	}
	if _, err := os.Stat(filepath.Join(s.workspace, "made")); err != nil {
		t.Error(err)
	}
	c = p.runManifest("other", "other", "")
	if c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED || c.GetIsolation().GetRequired() != tooldv1.IsolationLevel_ISOLATION_LEVEL_NONE || held(c.GetIsolation(), "fs_read") {
		t.Errorf("%v", c)
	}
}

// TestExampleAsks checks the tool of the example manifest, which asks a question. Its call survives a restart of the daemon and continues
// with the answer.
func TestExampleAsks(t *testing.T) {
	s := newSite(t, "")
	dir, err := filepath.Abs("../examples/command")
	must(t, err)
	flag := "--command-directory=" + dir
	p := s.start(flag)
	c := p.runManifest("remove_branch", "branch", `{"branch":"-old"}`)
	if c.GetSuspension().GetMessage() != "Remove this branch for good?" || c.GetDescription().GetTitle() != "Remove the branch -old" {
		t.Fatalf("%v", c)
	}
	p.kill()
	p = s.start(flag)
	if c = p.answer(c, "0002", `"yes"`); c.GetResult().GetMessage() != "The branch was removed." {
		t.Errorf("%v", c)
	}
	if _, err := os.Stat(filepath.Join(s.workspace, "removed")); err != nil {
		t.Error(err)
	}
	c = p.runManifest("remove_branch", "keep", `{"branch":"new"}`)
	if c = p.answer(c, "0003", `"no"`); c.GetResult().GetError().GetReason() != "KEPT" {
		t.Errorf("%v", c)
	}
}

// The manifest in the documentation runs as its page says.
func TestManifestOfThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/tools/command.md")
	must(t, err)
	files := map[string]string{}
	for block := range strings.SplitSeq(string(page), "```") {
		kind, text, _ := strings.Cut(block, "\n")
		for _, name := range []string{"greet.yaml", "greet.sh"} {
			if (kind == "yaml" || kind == "sh") && strings.Contains(text, "# "+name+"\n") {
				files[name] = text
			}
		}
	}
	s := newSite(t, "")
	_, flag := s.manifests(files)
	p := s.start(flag)
	c := p.runManifest("greet", "page", `{"name":"-Ada","loud":true}`)
	if len(files) != 2 || c.GetResult().GetMessage() != "Hello, -Ada!\n" || !held(c.GetIsolation(), "net") {
		t.Errorf("%d files: %v", len(files), c)
	}
}

// TestT81ManifestSecrets (T81) checks a secret of a manifest. After the approval, its process gets the secret, and no other tool gets it.
// The secret is redacted in the output of the process. A reference that a model writes stays plain text.
func TestT81ManifestSecrets(t *testing.T) {
	s := newSite(t, "")
	const value = "kJ8sVw2q-the-secret"
	dir, flag := s.manifests(map[string]string{
		"use.yaml": "id: use\nparameters: {properties: {text: {type: string}}, required: [text]}\nrun: {program: ./use.sh, args: ['{text}'], secrets: {KEY: 'secret://key'}}\n",
		"use.sh":   "#!/bin/sh\n[ \"$KEY\" = " + value + " ] && echo same; echo \"$KEY $1\"\n",
		"fd.yaml":  "id: fd\n" + observed + "run: {program: ./fd.sh, secrets: {KEY_FD: {descriptor: 'secret://key'}}}\n",
		"fd.sh":    "#!/bin/sh\nread -r key <&$KEY_FD; [ \"$key\" = " + value + " ] && echo same; echo \"$key\"; echo \"$key\" >&2; cat <&$KEY_FD\n",
		"no.yaml":  "id: no\n" + observed + "run: {program: ./use.sh, args: [a], secrets: {KEY: 'secret://key'}}\n",
	})
	config := filepath.Join(filepath.Dir(dir), "toold.yaml")
	must(t, os.WriteFile(config, []byte("secrets:\n  - name: key\n    env: MANIFEST_TEST_KEY\n    allow: [{tools: [use], parameters: [env.KEY]}, {tools: [fd], parameters: [descriptor.KEY_FD]}]\n"), 0o600))
	t.Setenv("MANIFEST_TEST_KEY", value)
	p := s.start(flag, "--config", config)
	c := p.runManifest("use", "secret", `{"text":"secret://key"}`)
	if strings.Contains(c.String(), value) || c.GetSuspension() == nil {
		t.Fatalf("before it was approved: %v", c)
	}
	c = p.answer(c, "0005", "")
	if got := c.GetResult().GetMessage(); !strings.HasPrefix(got, "same\n") || !strings.HasSuffix(got, " secret://key\n") || strings.Contains(c.String(), value) {
		t.Errorf("%v", c)
	}
	c = p.runManifest("fd", "descriptor", "")
	if got := c.GetResult().GetMessage(); !strings.HasPrefix(got, "same\n") || c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED || strings.Contains(c.String(), value) {
		t.Errorf("by descriptor: %v", c)
	}
	if c = p.runManifest("no", "notmine", ""); c.GetResult().GetError().GetReason() != "SECRET_UNAVAILABLE" || c.GetExecuted() != tooldv1.Executed_EXECUTED_NOT_STARTED {
		t.Errorf("%v", c)
	}
}

// TestDigestsOfTwoDataDirectories checks that the digests of all tools are equal in two data directories. Otherwise suspended calls would
// become invalid when another daemon takes over.
func TestDigestsOfTwoDataDirectories(t *testing.T) {
	var first map[string]string
	for range 2 {
		s := newSite(t, "")
		_, flag := s.manifests(map[string]string{
			"touch.yaml": "id: touch\nrun: {program: /usr/bin/touch, args: [made]}\n",
			"own.yaml":   "id: own\nrun: {program: ./own.sh, digest: load, output: lines}\n",
			"none.yaml":  "id: none\nrun: {program: ./own.sh, profile: none}\n",
			"own.sh":     "#!/bin/sh\n",
		})
		p := s.start(flag)
		list, err := tooldv1.NewToolServiceClient(p.conn).ListTools(within(t), &tooldv1.ListToolsRequest{})
		must(t, err)
		digests := map[string]string{}
		for _, one := range list.GetTools() {
			digests[one.GetId()] = one.GetDigest()
		}
		if first == nil {
			first = digests
		} else if diff := cmp.Diff(first, digests); diff != "" || digests["own"] == "" {
			t.Errorf("digests differ (-first +second):\n%s", diff)
		}
	}
}

// TestManifestsReload checks that a reload applies all manifests or none. When a manifest changes, the answers to open questions about the
// old manifest become invalid.
func TestManifestsReload(t *testing.T) {
	s := newSite(t, "")
	greet := "id: greet\nrun: {program: /bin/echo, args: [hello]}\n"
	dir, flag := s.manifests(map[string]string{"greet.yaml": greet})
	p := s.start(flag)
	asked := p.runManifest("greet", "greet", "")
	s.manifests(map[string]string{"greet.yaml": strings.Replace(greet, "hello", "bye", 1), "wrong.yaml": "id: wrong\nrun: {program: /bin/echo, argz: []}\n"})
	_, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "wrong.yaml")+`:2:27: unknown setting "run.argz"; did you mean "run.args"?`) {
		t.Errorf("a wrong manifest is reported as %v", err)
	}
	s.manifests(map[string]string{"wrong.yaml": "id: right\n" + observed + "run: {program: /bin/echo, args: [right]}\n"})
	done, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	if err != nil || strings.Join(done.GetChanged(), " ") != "command" {
		t.Errorf("%v, %v", done, err)
	}
	if c := p.runManifest("right", "right", ""); c.GetResult().GetMessage() != "right\n" {
		t.Errorf("%v", c)
	}
	if c := p.answer(asked, "0004", ""); c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUSPENDED {
		t.Errorf("a yes to one command ran another: %v", c)
	}
	done, err = p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	if err != nil || len(done.GetChanged()) != 0 {
		t.Errorf("nothing changed, and yet %v, %v", done, err)
	}
}

// TestReloadOfProfiles checks that a reload applies a new sandbox profile together with the manifests that use it. A changed profile needs
// a restart, and the response to the reload says so.
func TestReloadOfProfiles(t *testing.T) {
	s := newSite(t, "")
	_, flag := s.manifests(map[string]string{"a.yaml": "id: a\n" + observed + "run: {program: /bin/echo, args: [a]}\n"})
	config := filepath.Join(filepath.Dir(s.data), "toold.yaml")
	profile := func(text string) {
		must(t, os.WriteFile(config, []byte("sandbox:\n  profiles:\n    - {name: old}\n"+text), 0o600))
	}
	profile("")
	p := s.start(flag, "--config", config)
	s.manifests(map[string]string{"b.yaml": "id: b\n" + observed + "run: {program: /bin/sh, args: [-c, 'touch x || echo no'], profile: fresh}\n"})
	profile("    - {name: fresh, read_only: true}\n")
	done, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	if err != nil || strings.Join(done.GetChanged(), " ") != "command sandbox.profiles" || len(done.GetNeedsRestart()) != 0 {
		t.Fatalf("%v, %v", done, err)
	}
	if c := p.runManifest("b", "profile", ""); !strings.Contains(c.GetResult().GetMessage(), "no\n") {
		t.Errorf("the new profile does not hold: %v", c.GetResult())
	}
	profile("    - {name: fresh}\n")
	done, err = p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	if err != nil || len(done.GetChanged()) != 0 || strings.Join(done.GetNeedsRestart(), " ") != "sandbox.profiles" {
		t.Errorf("another profile: %v, %v", done, err)
	}
}

func TestManifestsCheck(t *testing.T) {
	s := newSite(t, "")
	dir, _ := s.manifests(map[string]string{"a.yaml": "id: a\nrun: {program: /bin/echo}\n"})
	do := func(path string) *run {
		return new(run).do(t, s.workspace, "tools", "check", path, "--workspace", s.workspace, "--data", s.data)
	}
	if r := do(dir); r.code != 0 || !strings.Contains(r.out, "is good: a, version ") {
		t.Errorf("%d %s %s", r.code, r.out, r.err)
	}
	s.manifests(map[string]string{"b.yaml": "id: b\nparameters:\n  properties:\n    n: {type: integr}\nrun: {program: /bin/echo, args: ['{n}']}\n"})
	if r := do(filepath.Join(dir, "b.yaml")); r.code != cli.ExitUsage || !strings.Contains(r.err, "b.yaml:4:15: parameters.properties.n.type: ") {
		t.Errorf("%d %s %s", r.code, r.out, r.err)
	}
}
