package daemon

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/proto"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tools/mcp/mcptest"
)

const (
	fileCanary    = "canary-of-a-file/ü\"51c2"
	commandCanary = "canary-of-a-command-84be"
	leakAllowed   = "rules:\n  - {action: allow, tools: [bash, leaky__bash]}\n"
)

// leaky returns a configuration with an MCP server that prints its secret in every form, and with the variable CANARY for bash. The values
// are references to secrets. If byReference is false, they are the secrets themselves.
func (s *site) leaky(byReference bool) (config string) {
	s.t.Helper()
	dir := filepath.Dir(s.rules)
	exe, err := os.Executable()
	must(s.t, err)
	inFile, inCommand := "secret://of-file", "secret://of-command"
	if !byReference {
		inFile, inCommand = fileCanary, commandCanary
	}
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"leaky": map[string]any{
		"command": exe, "env": map[string]string{mcptest.Mode: "leaky", mcptest.Leak: inCommand},
	}}})
	must(s.t, err)
	must(s.t, os.WriteFile(filepath.Join(dir, "mcp.json"), servers, 0o600))
	must(s.t, os.WriteFile(filepath.Join(dir, "secret"), []byte(fileCanary+"\n"), 0o600))
	program := filepath.Join(dir, "program")
	must(s.t, os.WriteFile(program, []byte("#!/bin/sh\necho "+commandCanary+"\n"), 0o700))
	text := "log: {level: debug}\nmetrics: {listen: '127.0.0.1:0'}\nmcp: {files: ['" + filepath.Join(dir, "mcp.json") + "']}\n" +
		"bash: {env: ['CANARY=" + inFile + "']}\n"
	if byReference {
		text += "secrets:\n  - {name: of-file, file: '" + filepath.Join(dir, "secret") + "', allow: [{tools: [bash], parameters: [env.CANARY]}]}\n" +
			"  - {name: of-command, command: ['" + program + "'], allow: [{tools: ['mcp:leaky']}]}\n"
	}
	config = filepath.Join(dir, "toold.yaml")
	must(s.t, os.WriteFile(config, []byte(text), 0o600))
	return config
}

// TestT81ReferencesAreNowhere (T79, T81) checks processes that print the secrets that they got by reference. Afterwards, the secrets must
// not appear in events, results and records, the log (with a dump of all goroutines), the metrics, the journal (with its write-ahead log)
// or the spool. The same test with the values in the configuration must find them.
func TestT81ReferencesAreNowhere(t *testing.T) {
	for _, byReference := range []bool{true, false} {
		s := newSite(t, leakAllowed)
		p := s.start("--config", s.leaky(byReference))
		eventually(t, "the server is there", func() bool { return p.hasTool("leaky__bash") })
		outputs := map[string][]byte{}
		printed := execute(t, p, bash("canary", leaking))
		message := lastFinished(printed.last(t)).GetResult().GetMessage()
		leaked := execute(t, p, &tooldv1.CallSpec{Tool: "leaky__bash", CallId: "serve-tests-call-leaky"})
		answer := lastFinished(leaked.last(t)).GetResult()
		for _, stream := range []*aStream{printed, leaked} {
			for _, frame := range stream.frames { // safe to read, because the stream has ended
				b, err := proto.Marshal(frame)
				must(t, err)
				outputs["events"] = append(outputs["events"], b...)
			}
			outputs["events"] = append(append(outputs["events"], outputOf(stream, "stdout")...), outputOf(stream, "stderr")...)
		}
		for _, id := range []string{"serve-tests-call-canary", "serve-tests-call-leaky"} {
			got, err := p.calls.GetCall(within(t), &tooldv1.GetCallRequest{CallId: id})
			must(t, err)
			record, err := proto.Marshal(got)
			must(t, err)
			outputs["records"] = append(outputs["records"], record...)
		}
		_, numbers := getMetrics(t, p, "GET", "/metrics", p.ready.Metrics)
		outputs["metrics"] = []byte(numbers)
		outputs["journal"] = filesOf(t, s.data) // before the write-ahead log is removed
		p.signal(syscall.SIGQUIT)               // makes the process dump all goroutines, as a panic would
		p.wait(hangs)
		outputs["log"] = []byte(p.log.String())
		outputs["files"] = filesOf(t, s.data)
		if !bytes.Contains(outputs["log"], []byte("goroutine ")) || len(numbers) == 0 {
			t.Errorf("no dump, or no metrics: %d bytes", len(numbers))
		}
		for _, secret := range []string{fileCanary, commandCanary} {
			quoted := strings.ReplaceAll(secret, `"`, `\"`)
			for form, text := range map[string]string{
				"raw": secret, "base64": base64.StdEncoding.EncodeToString([]byte(secret)), "hex": hex.EncodeToString([]byte(secret)), "JSON": quoted,
			} {
				for name, b := range outputs {
					found := bytes.Contains(b, []byte(text))
					if byReference && found {
						t.Errorf("%s: %s holds a secret (%s)", secret, name, form)
					}
					if !byReference && !found && (name == "files" || name == "events") {
						t.Errorf("%s: given without reference %s does not hold it (%s): this test sees nothing", secret, name, form)
					}
				}
			}
		}
		if !byReference {
			continue
		}
		for _, want := range []string{"[redacted:of-file] in two chunks", "raw [redacted:of-file]"} {
			if !strings.Contains(message, want) {
				t.Errorf("bash printed no %q:\n%s", want, message)
			}
		}
		if text := answer.GetMessage() + answer.String(); !strings.Contains(text, "raw [redacted:of-command] json") {
			t.Errorf("the server answered %v", answer)
		}
	}
}

// filesOf returns the bytes of all files below a directory.
func filesOf(t *testing.T, dir string) (all []byte) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // The file was the record of a process. It is removed when the process ends.
		}
		if err != nil || d.IsDir() || d.Type()&fs.ModeSocket != 0 {
			return err
		}
		b, err := os.ReadFile(path)
		all = append(all, b...)
		if os.IsNotExist(err) {
			return nil
		}
		return err
	}))
	return all
}

// T79: a reference that a model writes stays plain text. A tool that may not use a secret does not run. A reload applies changed files,
// programs and permissions, and earlier values stay redacted.
func TestReferencesOfOperatorsAlone(t *testing.T) {
	s := newSite(t, leakAllowed)
	dir := filepath.Dir(s.rules)
	file, config := filepath.Join(dir, "secret"), filepath.Join(dir, "toold.yaml")
	write := func(value, allow string) {
		must(t, os.WriteFile(file, []byte(value+"\n"), 0o600))
		must(t, os.WriteFile(config, []byte("bash: {env: ['KEY=Bearer secret://key']}\nsecrets:\n  - {name: key, file: '"+file+"', allow: ["+allow+"]}\n"), 0o600))
	}
	write("the-first-secret", "{tools: [bash]}")
	p := s.start("--config", config)
	n := 0
	result := func(command string) *tooldv1.CallFinished {
		t.Helper()
		n++
		return lastFinished(execute(t, p, bash(fmt.Sprint("reference-", n), command)).last(t))
	}
	prints := func(command, want string) {
		t.Helper()
		if got := result(command).GetResult().GetMessage(); strings.TrimSpace(got) != want {
			t.Errorf("%s prints %q, want %q", command, got, want)
		}
	}
	reload := func(want string) {
		t.Helper()
		got, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
		must(t, err)
		if text := fmt.Sprint(got.GetChanged(), got.GetNeedsRestart()); text != want {
			t.Errorf("reloaded %s, want %s", text, want)
		}
	}
	prints("echo secret://key", "secret://key")
	prints(`echo "${#KEY} $KEY"`, "23 Bearer [redacted:key]")
	write("the-second-secret", "{tools: [bash]}")
	prints(`echo "${#KEY} $KEY the-first-secret"`, "24 Bearer [redacted:key] [redacted:key]") // the changed value applies without a reload
	reload("[] []")
	write("the-second-secret", "{tools: [bash], namespaces: [elsewhere]}")
	reload("[secrets] []")
	refused := result("touch ran")
	e := refused.GetResult().GetError()
	if e.GetReason() != "SECRET_UNAVAILABLE" || !strings.Contains(e.GetMessage(), "secret key is not available to this tool") ||
		refused.GetExecuted() != tooldv1.Executed_EXECUTED_NOT_STARTED {
		t.Errorf("without an entitlement it ended %v", refused)
	}
	if _, err := os.Stat(filepath.Join(s.workspace, "ran")); err == nil {
		t.Error("without its secret it ran")
	}
	p.logs(t, `no allow entry of the secret entitles tool \"bash\", parameter \"env.KEY\" in namespace \"*\"`) // the log tells the operator the reason
	write("short", "{tools: [bash]}")
	reload("[secrets] []")
	if e := result("true").GetResult().GetError(); e.GetReason() != "SECRET_UNAVAILABLE" {
		t.Errorf("a secret that could not be filtered: %v", e)
	}
	p.logs(t, "has 5 bytes")
	for args, code := range map[string]int{"secrets list": 0, "secrets check": 1} {
		r := new(run).do(t, s.data, append(strings.Fields(args), "-o", "table")...)
		if r.code != code || !strings.Contains(r.out, "SECRET") || !strings.Contains(r.out, "cannot be read") || !strings.Contains(r.out, "key  has 5 bytes") || strings.Contains(r.out, "short") {
			t.Errorf("toold %s: %+v", args, r)
		}
	}
	for _, was := range []string{"the-first-secret", "the-second-secret"} {
		if strings.Contains(p.log.String(), was) {
			t.Errorf("the log holds %s", was)
		}
	}
}

// TestT116SecretInBashEnv (T116) checks that a command that gets a secret has an empty home directory. Other commands of a thread share a
// home directory.
func TestT116SecretInBashEnv(t *testing.T) {
	s := newSite(t, leakAllowed)
	dir := filepath.Dir(s.rules)
	file, config := filepath.Join(dir, "secret"), filepath.Join(dir, "toold.yaml")
	must(t, os.WriteFile(file, []byte("the-first-secret\n"), 0o600))
	n := 0
	for _, tt := range []struct{ env, want string }{{"", "planted"}, {"bash: {env: ['KEY=secret://key']}\n", ""}} {
		must(t, os.WriteFile(config, []byte(tt.env+"secrets:\n  - {name: key, file: '"+file+"', allow: [{tools: [bash]}]}\n"), 0o600))
		p := s.start("--config", config)
		in := func(command string) string {
			n++
			call := bash(fmt.Sprint("home-", n), command)
			call.Run = &tooldv1.Run{RunId: "r", ThreadId: "t"}
			return strings.TrimSpace(lastFinished(execute(t, p, call).last(t)).GetResult().GetMessage())
		}
		in("touch ~/planted")
		if got := strings.TrimPrefix(in("ls -A ~"), "(no output)"); got != tt.want {
			t.Errorf("with %q: %q", tt.env, got)
		}
		p.stop()
	}
}
