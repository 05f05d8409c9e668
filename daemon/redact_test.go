package daemon

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/daemon/config"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/sdk/go/worker"
)

const canary = "canary-7f3a/ü\"9d"

// leaking is a command that prints the secret of its environment in many forms.
const leaking = `printf %s "${CANARY:0:5}"; sleep 0.2; echo "${CANARY:5} in two chunks"
echo "raw $CANARY" >&2; printf %s "$CANARY" | base64; printf 'xy%s' "$CANARY" | base64; printf %s "$CANARY" | od -An -tx1 | tr -d ' \n'
echo; echo "json ${CANARY//\"/\\\"}"; echo "gh""p_0123456789abcdefghijABCDEFGHIJ456789"; echo "employee""-1234567"; printf %s "${CANARY:0:5}"; exit 3`

// TestT79SecretIsNowhere (T79, T81, T112) checks a call that prints a secret in many forms. The secret must not appear in events, results,
// the log, the files of the store or the spool. The same test without redaction must find the secret in all of these outputs.
func TestT79SecretIsNowhere(t *testing.T) {
	for _, redacts := range []bool{true, false} {
		s := newSite(t, bashAllowed)
		config := "bash: {env: ['CANARY=" + canary + "']}\nlog: {level: debug}\n"
		if redacts {
			config += "redact:\n  tokens: true\n  values: [{name: db, file: '" + filepath.Join(filepath.Dir(s.data), "secret") + "'}]\n" +
				"  patterns: [{name: staff, expr: 'employee-\\d+'}]\n"
		}
		must(t, os.WriteFile(filepath.Join(filepath.Dir(s.data), "secret"), []byte(canary+"\n"), 0o600))
		must(t, os.WriteFile(s.rules+".config", []byte(config), 0o600))
		p := s.start("--config", s.rules+".config")
		stream := execute(t, p, bash("canary", leaking))
		finished := lastFinished(stream.last(t))
		got, err := p.calls.GetCall(within(t), &tooldv1.GetCallRequest{CallId: "serve-tests-call-canary"})
		must(t, err)
		outputs := map[string][]byte{}
		stdout := outputOf(stream, "stdout")
		for _, frame := range stream.frames { // safe to read, because the stream has ended
			b, err := proto.Marshal(frame)
			must(t, err)
			outputs["events"] = append(append(outputs["events"], b...), stdout...)
		}
		record, err := proto.Marshal(got)
		must(t, err)
		outputs["record"] = record
		p.signal(syscall.SIGTERM)
		p.wait(hangs)
		outputs["log"] = []byte(p.log.String())
		must(t, filepath.WalkDir(s.data, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Type()&fs.ModeSocket != 0 {
				return err
			}
			b, err := os.ReadFile(path)
			outputs["store"] = append(outputs["store"], b...)
			return err
		}))
		forms := map[string]string{
			"raw": canary, "base64": base64.StdEncoding.EncodeToString([]byte(canary)), "base64 inside": base64.StdEncoding.EncodeToString([]byte("xy" + canary))[4:20],
			"hex": hex.EncodeToString([]byte(canary)), "json": strings.ReplaceAll(canary, `"`, `\"`), "token": "ghp_0123456789abcdefghijABCDEFGHIJ456789", "pattern": "employee-1234567",
		}
		for form, text := range forms {
			for name, b := range outputs {
				found := bytes.Contains(b, []byte(text))
				if redacts && found {
					t.Errorf("%s holds the secret (%s)", name, form)
				}
				if !redacts && !found && name == "store" {
					t.Errorf("without redaction %s does not hold the secret (%s): this test sees nothing", name, form)
				}
			}
		}
		if !redacts {
			continue
		}
		message := finished.GetResult().GetMessage()
		for _, want := range []string{"[redacted:db] in two chunks", "raw [redacted:db]", "json [redacted:db]", "[redacted:github]", "[redacted:staff]", "Exit code 3"} {
			if !strings.Contains(message, want) {
				t.Errorf("the message has no %q:\n%s", want, message)
			}
		}
		if !bytes.Contains(outputs["events"], []byte("[redacted:db] in two chunks")) || !bytes.HasSuffix(stdout, []byte("canar")) {
			t.Errorf("stdout was published as %q", stdout)
		}
	}
}

// outputOf returns the output of a stream, arranged by the offsets of its events.
func outputOf(s *aStream, name string) (b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, frame := range s.frames {
		for _, e := range frame.GetEvents() {
			if o := e.GetOutput(); o.GetStream() == name && int(o.GetOffset()) == len(b) {
				b = append(b, o.GetData()...)
			}
		}
	}
	return b
}

func TestRedactSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(file, []byte("from-a-file\n"), 0o600))
	t.Setenv("TEST_SECRET", "from-a-variable")
	cfg, err := load(t, "redact:\n  tokens: true\n  values:\n    - {name: v, env: TEST_SECRET}\n    - {file: "+file+"}\n    - {value: given-here}\n  patterns: [{name: p, expr: 'x+'}]\n", nil)
	must(t, err)
	r, err := newSecrets(cfg, "")
	must(t, err)
	if got := r.Text("from-a-variable from-a-file given-here xx"); got != "[redacted:v] [redacted] [redacted] [redacted:p]" {
		t.Errorf("text %q", got)
	}
	if text := config.Text(cfg); strings.Contains(text, "given-here") || !strings.Contains(text, `env: "TEST_SECRET"`) || !strings.Contains(text, `expr: "x+"`) {
		t.Errorf("the configuration is shown as\n%s", text)
	}
	none, err := load(t, "", nil)
	must(t, err)
	if r, err := newSecrets(none, ""); r != nil || err != nil {
		t.Errorf("without the setting there is %v, %v", r, err)
	}
	for config, want := range map[string]string{
		"redact: {values: [{env: TEST_SECRET_THAT_IS_NOT_SET}]}": "TEST_SECRET_THAT_IS_NOT_SET is not set",
		"redact: {values: [{file: /no/such/file}]}":              "no such file",
		"redact: {values: [{value: short}]}":                     "fewer than 8",
		"redact: {patterns: [{expr: '('}]}":                      "missing closing",
		"redact: {patterns: [{expr: 'a*'}]}":                     "matches the empty text",
	} {
		cfg, err := load(t, config+"\n", nil)
		must(t, err)
		if _, err := newSecrets(cfg, ""); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "value: short") {
			t.Errorf("%s: %v", config, err)
		}
	}
	for _, config := range []string{"redact: {values: [{name: x}]}", "redact: {values: [{env: A, file: b}]}"} {
		if _, err := load(t, config+"\n", nil); err == nil || !strings.Contains(err.Error(), "needs one of env, file and value") {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// A reload redacts a secret that changed in its file. The daemon's own token is always redacted.
func TestRedactReload(t *testing.T) {
	s := newSite(t, bashAllowed)
	dir := filepath.Dir(s.data)
	write := func(name, text string) { must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	config := "redact: {values: [{name: key, file: '" + filepath.Join(dir, "secret") + "'}]}\n"
	write("secret", "the first secret\n")
	write("config", config)
	p := s.start("--config", filepath.Join(dir, "config"), "--bash-profile", "none") // Run commands without isolation, because an isolated command cannot read the token.
	n := 0
	prints := func(command, want string) {
		t.Helper()
		n++
		c := execute(t, p, bash(fmt.Sprint("redacted-", n), command))
		if got := lastFinished(c.last(t)).GetResult().GetMessage(); !strings.Contains(got, want) {
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
	prints("echo the first secret", "[redacted:key]")
	prints("cat "+p.ready.TokenFile, "[redacted:toold-token]")
	reload("[] []")
	write("secret", "the second secret\n")
	reload("[redact] []")
	prints("echo the second secret", "[redacted:key]")
	write("config", config+"log: {level: debug}\n")
	must(t, os.Remove(filepath.Join(dir, "secret")))
	if _, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{}); reasonOf(err) != "CONFIG_INVALID" || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without the file: %v", err)
	}
	prints("echo the second secret", "[redacted:key]")
	write("config", "redact: {patterns: [{name: p, expr: 'other'}]}\nlimits: {concurrency: 9}\n")
	reload("[redact] [limits.concurrency]")
	prints("echo the second and the other secret", "the second and the [redacted:p] secret")
	prints("cat "+p.ready.TokenFile, "[redacted:toold-token]")
}

// T79: DescribeCall redacts a worker's answer about arguments, although that answer is not an event.
func TestT79DescribeCallIsFiltered(t *testing.T) {
	const secret = "correct horse battery staple"
	p := newPluginSite(t, fmt.Sprintf("redact: {values: [{name: horse, value: %q}]}\n", secret))
	w := worker.New(worker.Config{Address: p.p.ready.TCP, Token: p.p.token(), Pool: "telling"})
	worker.Add(w, worker.Tool{ID: "tells", Validate: func(context.Context, *worker.Call) error {
		return &worker.Failure{Reason: "NO", Message: "not with " + secret}
	}}, func(context.Context, *worker.Call, struct{}) (string, error) { return "never", nil })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	p.p.sees("tells", true)
	eventually(t, "the worker is there and answers in time", func() bool {
		got, err := p.p.calls.DescribeCall(within(t), &tooldv1.DescribeCallRequest{Spec: &tooldv1.CallSpec{Tool: "tells", Arguments: "{}"}})
		must(t, err)
		if e := got.GetError(); !got.GetValid() && e.GetReason() != "NO_ANSWER" && e.GetCode() != tooldv1.ErrorCode_ERROR_CODE_INTERNAL && (e.GetCode() != tooldv1.ErrorCode_ERROR_CODE_INVALID_ARGUMENTS || e.GetMessage() != "not with [redacted:horse]" || strings.Contains(got.String(), secret)) {
			t.Fatalf("described: %v", got)
		}
		return got.GetError().GetReason() == "NO"
	})
	stop()
	must(t, <-ended)
}
