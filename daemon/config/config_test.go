package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/toold-dev/toold/setting"
)

const someHash = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// load reads a configuration as serve does. text is the content of the configuration file; when it is empty, there is no file.
func load(t *testing.T, text string, environ []string, args ...string) (*Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(flags)
	flags.Bool("moved", false, "")
	if text != "" {
		file := filepath.Join(t.TempDir(), "toold.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--config", file}, args...)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load(flags, environ)
}

func TestConfigDefaults(t *testing.T) {
	cfg, err := load(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.resolve()
	if diff := cmp.Diff(want, *cfg, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "loaded" }, cmp.Ignore())); diff != "" {
		t.Error(diff)
	}
	if cfg.Listen.TCP != "127.0.0.1:7130" || cfg.Listen.Unix != "./data/toold.sock" {
		t.Errorf("listens at %+v", cfg.Listen)
	}
}

func TestConfigWeight(t *testing.T) {
	file := "data: /file\nlisten: {tcp: ':0'}\nlimits:\n  concurrency: 1\n  queue_length: 1\ntimeouts: {linger: never, expiry: 7d}\nbash: {env: [A=b]}\n"
	cfg, err := load(t, file, []string{"TOOLD_LIMITS_CONCURRENCY=2", "TOOLD_LIMITS_QUEUE_LENGTH=2", "TOOLD_SINGLE_USER=true", "TOOLD_PORT=tcp://10.0.0.1:80"},
		"--limits-queue-length=3", "--timeouts-drain=0", "--moved")
	if err != nil {
		t.Fatal(err)
	}
	got := []any{cfg.Data, cfg.Listen.TCP, cfg.Listen.Unix, cfg.Limits.Concurrency, cfg.Limits.QueueLength, cfg.Limits.Arguments,
		cfg.SingleUser, cfg.Timeouts.Linger, cfg.Timeouts.Expiry, cfg.Timeouts.Drain, cfg.Bash.Env[0], cfg.Moved}
	want := []any{"/file", "127.0.0.1:0", "/file/toold.sock", 2, 3, 1 << 20, true, setting.Never, 7 * 24 * time.Hour, time.Duration(0), "A=b", true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for key, from := range map[string]string{
		"data": ":1", "limits.concurrency": "environment TOOLD_LIMITS_CONCURRENCY", "limits.queue_length": "flag --limits-queue-length",
		"timeouts.expiry": ":6", "bash.env": ":7",
	} {
		if got := cfg.loaded.from[key]; !strings.HasSuffix(got, from) {
			t.Errorf("%s is from %q, want %q", key, got, from)
		}
	}
}

// An empty group keeps the defaults of its settings.
func TestConfigEmptyGroup(t *testing.T) {
	cfg, err := load(t, "listen:\nlimits: {}\nlog:\n  level: warn\n", nil)
	if err != nil || cfg.Listen.TCP != "127.0.0.1:7130" || cfg.Limits.Concurrency != 256 || cfg.Log.Level != "warn" {
		t.Errorf("%+v, %v", cfg, err)
	}
}

func TestConfigZeroValues(t *testing.T) {
	cfg, err := load(t, "listen: {tcp: ''}\ntimeouts: {linger: 0}\n", nil)
	if err != nil || cfg.Listen.TCP != "" || cfg.Timeouts.Linger != 0 {
		t.Errorf("%+v, %v", cfg, err)
	}
}

func TestConfigTokens(t *testing.T) {
	cfg, err := load(t, "auth:\n  tokens:\n    - {name: ci, roles: [caller, viewer], hash: '"+someHash+"', expires: 2027-01-31T00:00:00Z}\n    - name: eve\n      namespace: team\n      roles: [approver]\n      hash: "+
		strings.Replace(someHash, "0", "f", 1)+"\n      expires: '2027-01-31T00:00:00+01:00'\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Auth.Tokens) != 2 {
		t.Fatalf("tokens %+v", cfg.Auth.Tokens)
	}
	ci, eve := cfg.Auth.Tokens[0], cfg.Auth.Tokens[1]
	if ci.Namespace != "default" || eve.Namespace != "team" || ci.Roles[1] != "viewer" {
		t.Errorf("%+v %+v", ci, eve)
	}
	if sum, err := ci.Sum(); err != nil || sum[0] != 0x01 || sum[31] != 0xef {
		t.Errorf("Sum = %x, %v", sum, err)
	}
	if ci.Expires.Sub(eve.Expires) != time.Hour {
		t.Errorf("expires %v and %v", ci.Expires, eve.Expires)
	}
}

func TestConfigRefuses(t *testing.T) {
	tests := []struct {
		name, file string
		environ    []string
		args       []string
		want       []string // all problems that the error must report
	}{
		{"unknown", "data: x\nworkspce: y\n", nil, nil, []string{`toold.yaml:2:1: unknown setting "workspce"; did you mean "workspace"?`}},
		{"unknown in a group", "limits:\n  queue_lengt: 3\n", nil, nil, []string{`:2:3: unknown setting "limits.queue_lengt"; did you mean "limits.queue_length"?`}},
		{"known elsewhere", "concurrency: 3\n", nil, nil, []string{`did you mean "limits.concurrency"?`}},
		{"moved is a flag", "moved: true\n", nil, nil, []string{`unknown setting "moved"`}},
		{"unknown in a list", "auth:\n  tokens:\n  - name: a\n    role: caller\n", nil, nil, []string{`:4:5: unknown setting "auth.tokens[0].role"; did you mean "auth.tokens[0].roles"?`}},
		{"twice", "data: a\ndata: b\n", nil, nil, []string{"toold.yaml:", "line 2", "already defined"}},
		{"syntax", "data: [\n", nil, nil, []string{"toold.yaml:", "line "}},
		{"two documents", "data: a\n---\ndata: b\n", nil, nil, []string{"more than one document"}},
		{"smaller indentation", "   listen:\n  tcp: 127.0.0.1:1\n", nil, nil, []string{"less indentation than the first line"}},
		{"type", "limits: {concurrency: many}\n", nil, nil, []string{`:1:23: limits.concurrency: "many" is not a whole number`}},
		{"a word that YAML takes for another", "workspace: no\nsingle_user: maybe\n", nil, nil, []string{`"maybe" is not true or false`}},
		{"a number for text", "data: 5\n", nil, nil, []string{`"5" is not text`}},
		{"duration", "timeouts: {queue: 30}\n", nil, nil, []string{`"30" is not a duration`}},
		{"group for a value", "data: {a: b}\n", nil, nil, []string{"data wants a value"}},
		{"value for a group", "listen: here\n", nil, nil, []string{"listen is a group"}},
		{"value for a list", "bash: {env: A=b}\n", nil, nil, []string{"bash.env is a list"}},
		{"empty value", "data:\n", nil, nil, []string{"data wants a value"}},
		{"environment", "", []string{"TOOLD_LIMITS_CONCURRENCY=x"}, nil, []string{`TOOLD_LIMITS_CONCURRENCY: "x" is not a whole number`}},
		{"list in the environment", "", []string{"TOOLD_BASH_ENV=A=b"}, nil, []string{"bash.env is a list"}},
		{"flag", "", nil, []string{"--timeouts-queue=soon"}, []string{`--timeouts-queue: "soon" is not a duration`}},
		{"out of range says where", "limits: {arguments: 2000000}\n", nil, nil, []string{"limits.arguments: 2000000 is not between 1 and 1048576 (", ":1)"}},
		{"several at once", "log: {level: loud, format: xml}\n", nil, nil, []string{"log.level", "log.format"}},
		{"never ends", "timeouts: {queue: never}\n", nil, nil, []string{"timeouts.queue: must have a limit"}},
		{"tombstones", "retention: {calls: 30d, tombstones: 7d}\n", nil, nil, []string{"retention.tombstones: 7d is less than the 30d"}},
		{"nowhere", "listen: {tcp: '', unix: ''}\n", nil, nil, []string{"no client can connect"}},
		{"no port", "listen: {tcp: localhost}\n", nil, nil, []string{`listen.tcp: "localhost" is not host:port`}},
		{"port", "listen: {tcp: '127.0.0.1:70000'}\n", nil, nil, []string{"no port between"}},
		{"half of TLS", "tls: {cert: a}\n", nil, nil, []string{"tls: set both cert and key, or neither"}},
		{"clients without TLS", "tls: {client_ca: a}\n", nil, nil, []string{"tls.client_ca: needs cert and key"}},
		{"metrics", "metrics: {listen: '0.0.0.0:9090'}\n", nil, nil, []string{"metrics.listen: 0.0.0.0:9090 is not a loopback address", "metrics.public"}},
		{"token", "auth: {tokens: [{roles: [boss], hash: abc}, {name: b, hash: '" + someHash + "'}]}\n", nil, nil,
			[]string{"auth.tokens[0].name: is required: ", "toold token hash", `auth.tokens[0].roles: "boss" is not one of caller, `, "auth.tokens[1].roles: is required: "}},
		{"the same token twice", "auth: {tokens: [{name: a, roles: [caller], hash: '" + someHash + "'}, {name: b, roles: [caller], hash: '" + someHash + "'}]}\n", nil, nil,
			[]string{"auth.tokens[1].hash: the same value is set twice ("}},
		{"environment of bash", "bash: {env: [A]}\n", nil, nil, []string{"bash.env: entry 1 is not NAME=value"}},
		{"no such file", "", []string{"TOOLD_CONFIG=/nonexistent/toold.yaml"}, nil, []string{"/nonexistent/toold.yaml"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := load(t, tt.file, tt.environ, tt.args...)
			if err == nil {
				t.Fatalf("accepted: %+v", cfg)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want %q in it", err, want)
				}
			}
		})
	}
}

// A listener that is reachable from other machines needs TLS and authentication.
func TestExposure(t *testing.T) {
	const tls, token = "tls: {cert: c, key: k}\n", "auth: {tokens: [{name: a, roles: [caller], hash: '" + someHash + "'}]}\n"
	tests := []struct {
		address, rest string
		ok            bool
	}{
		{"127.0.0.1:7130", "", true},
		{"127.8.9.1:7130", "", true},
		{"[::1]:7130", "", true},
		{"[::ffff:127.0.0.1]:7130", "", true},
		{"localhost:7130", "", true},
		{":7130", "", true}, // an empty host means the loopback address, not all addresses
		{"0.0.0.0:7130", "", false},
		{"[::]:7130", "", false},
		{"10.0.0.1:7130", tls, false},
		{"10.0.0.1:7130", token, false},
		{"10.0.0.1:7130", tls + token, true},
		{"10.0.0.1:7130", "tls: {cert: c, key: k, client_ca: a}\n", true},
		{"localhost.example.org:7130", "", false}, // a name other than localhost may resolve to any address
		{"127.0.0.1.example.org:7130", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.address+" "+tt.rest, func(t *testing.T) {
			_, err := load(t, "listen: {tcp: '"+tt.address+"'}\n"+tt.rest, nil)
			if (err == nil) != tt.ok {
				t.Errorf("error %v, want ok %t", err, tt.ok)
			}
			if err != nil && !strings.Contains(err.Error(), "reachable from other machines") {
				t.Errorf("refused for another reason: %v", err)
			}
		})
	}
}

func TestConfigWarnsOfNearlyASetting(t *testing.T) {
	cfg, err := load(t, "", []string{"TOOLD_LISTEN_TPC=:0", "TOOLD_SERVICE_HOST=10.0.0.1", "TOOLD_TOKEN=secret"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"TOOLD_LISTEN_TPC is not a setting; did you mean TOOLD_LISTEN_TCP?"}
	if diff := cmp.Diff(want, cfg.loaded.warnings); diff != "" {
		t.Error(diff)
	}
}

func TestConfigReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "toold.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("rules: a.yaml\n")
	cfg, err := load(t, "", []string{"TOOLD_CONFIG=" + file}, "--data", "/flag")
	if err != nil {
		t.Fatal(err)
	}
	write("rules: b.yaml\ndata: /file\n")
	next, err := cfg.Reload()
	if err != nil || next.Rules != "b.yaml" || next.Data != "/flag" || cfg.Rules != "a.yaml" {
		t.Errorf("reloaded %+v, %v; before %+v", next, err, cfg)
	}
	write("rulez: c\n")
	if _, err := cfg.Reload(); err == nil {
		t.Error("a broken file was taken")
	}
}

func TestConfigShow(t *testing.T) {
	cfg, err := load(t, "auth:\n  tokens:\n  - {name: ci, roles: [caller], hash: '"+someHash+"', expires: 2027-01-31T00:00:00Z}\nbash:\n  env: [SECRET=hunter2]\ntimeouts: {linger: never}\n",
		[]string{"TOOLD_LOG_LEVEL=debug"}, "--listen-tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(Text(cfg), filepath.Dir(cfg.File())+"/", "")
	if strings.Contains(text, "0123456789abcdef") || strings.Contains(text, "hunter2") {
		t.Error("a secret is shown")
	}
	golden(t, "config_show", text)
}

// TestConfigShowIsAFile checks that the output of config show, without its lists, is a valid configuration file with the same meaning.
func TestConfigShowIsAFile(t *testing.T) {
	cfg, err := load(t, "timeouts: {linger: never, queue: 1m30s}\nrules: \"a b#c\"\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := load(t, Text(cfg), nil)
	if err != nil {
		t.Fatal(err)
	}
	if changed := Changed(cfg, again); changed != nil {
		t.Errorf("differ: %v", changed)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("data: x\nauth:\n  tokens:\n  - name: a\n")
	f.Add("a: &a [*a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := defaults()
		c.loaded = loaded{file: "f", from: map[string]string{}}
		_ = c.readYAML([]byte(text)) // it may return an error, but must not panic
	})
}
