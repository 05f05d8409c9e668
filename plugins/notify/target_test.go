package notify_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/plugins/notify"
	"github.com/toold-dev/toold/setting"
	"github.com/toold-dev/toold/tool"
)

func TestWrongTargets(t *testing.T) {
	good := notify.Target{Name: "a", URL: "https://10.0.0.1/x", Secrets: secrets(t, key)} // the operator may name private addresses
	tests := []struct {
		want   string // the invalid field; empty means none
		change func(*notify.Target)
	}{
		{"", func(*notify.Target) {}},
		{"", func(t *notify.Target) { t.URL = "http://127.0.0.1:8080/x?y=z" }},
		{"", func(t *notify.Target) { t.URL = "http://[::1]/x" }},
		{"", func(t *notify.Target) { t.URL = "http://localhost/x" }},
		{"name", func(t *notify.Target) { t.Name = "a/b" }},
		{"url", func(t *notify.Target) { t.URL = "" }},
		{"url", func(t *notify.Target) { t.URL = "http://example.org/x" }},
		{"url", func(t *notify.Target) { t.URL = "http://localhost.example.org/x" }},
		{"url", func(t *notify.Target) { t.URL = "ftp://127.0.0.1/x" }},
		{"url", func(t *notify.Target) { t.URL = "https:x" }},
		{"url", func(t *notify.Target) { t.URL = "https://user:pass@example.org/" }},
		{"url", func(t *notify.Target) { t.URL = "https://example.org/#x" }},
		{"events", func(t *notify.Target) { t.Events = []notify.Event{"started"} }},
		{"match.tools", func(t *notify.Target) { t.Match.Tools = []string{"["} }},
		{"secret_file", func(t *notify.Target) { t.Secrets = nil }},
		{"ca", func(t *notify.Target) { t.CA = []byte("x") }},
		{"timeout", func(t *notify.Target) { t.Timeout = time.Hour }},
		{"first_delay", func(t *notify.Target) { t.First, t.Most = time.Minute, time.Second }},
		{"most_delay", func(t *notify.Target) { t.Most = 25 * time.Hour }},
		{"give_up", func(t *notify.Target) { t.GiveUp = 31 * 24 * time.Hour }},
		{"at_once", func(t *notify.Target) { t.AtOnce = 65 }},
	}
	for _, tt := range tests {
		target := good
		tt.change(&target)
		_, err := notify.New(notify.Config{Targets: []notify.Target{{Name: "b", URL: good.URL, Secrets: good.Secrets}, target}})
		of, _ := errors.AsType[setting.Problems](err)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%+v: %v", target, err)
		case tt.want != "" && (of == nil || of[0].Key != "targets[1]."+tt.want):
			t.Errorf("%+v: %v, want %s", target, err, tt.want)
		}
	}
}

func TestSecrets(t *testing.T) {
	for text, want := range map[string]string{
		key: "", key + "\n": "", "\n" + key + "\r\n" + key: "", "": "contains no secret", "\n\n": "contains no secret",
		key + "\n" + key + "\n" + key: "contains 3", "whsec_AAAA": "line 1", strings.TrimPrefix(key, "whsec_"): "line 1", key + "\nwhsec_%": "line 2",
		"whsec_" + strings.Repeat("AAAA", 22): "line 1",
	} {
		if _, err := notify.ParseSecrets([]byte(text)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParseSecrets(f *testing.F) {
	f.Add([]byte(key + "\n" + key))
	f.Fuzz(func(t *testing.T, text []byte) {
		secrets, err := notify.ParseSecrets(text)
		if err == nil && (len(secrets) < 1 || len(secrets) > 2) {
			t.Errorf("%d secrets", len(secrets))
		}
		for _, s := range secrets {
			if len(s) < 24 || len(s) > 64 {
				t.Errorf("%d bytes", len(s))
			}
		}
	})
}

// BenchmarkNotify measures what the plugin adds to the end of a call, without the storage.
func BenchmarkNotify(b *testing.B) {
	target := notify.Target{Name: "a", URL: "https://example.org", Secrets: secrets(b, key)}
	other := target
	other.Name, other.Match.Tools = "b", []string{"web_*"}
	for name, targets := range map[string][]notify.Target{"match": {target}, "other tools": {other}} {
		n, err := notify.New(notify.Config{Targets: targets})
		if err != nil {
			b.Fatal(err)
		}
		in := finished("call-1")
		in.Event.Outcome = &call.Outcome{Status: call.Succeeded, Executed: call.Finished, Result: &tool.Result{Message: "done"}}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n.Notify(in)
			}
		})
	}
}
