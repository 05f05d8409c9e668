package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDirectoriesAreSeparate checks that the token, the journal, the rules and the socket must be outside the workspace, whatever path names them.
// Tools read and write the workspace for every caller.
func TestDirectoriesAreSeparate(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"ws/sub", "ws/linked-data", "data", "data2", "out", "other/deep"} {
		must(t, os.MkdirAll(at(name), 0o755))
	}
	for _, name := range []string{"ws/rules.yaml", "ws/toold.yaml", "ws/token", "rules.yaml"} {
		must(t, os.WriteFile(at(name), nil, 0o600))
	}
	for link, to := range map[string]string{"into": "ws/sub", "later": "ws/not-yet", "again": "ws", "data2/token": "../ws/token", "loop": "loop", "elsewhere": "out/not-yet", "ws/up": "..", "deep": "other/deep"} {
		must(t, os.Symlink(to, at(link)))
	}
	tests := []struct {
		name            string
		data, workspace string
		more            []string
		say             string // text that the error contains; empty when the paths are accepted
	}{
		{"side by side", "data", "ws", nil, ""},
		{"neither is there yet", "new-data", "new-ws", nil, ""},
		{"a name that begins alike", "ws-data", "ws", nil, ""},
		{"a link that leads out", "elsewhere", "ws", nil, ""},
		{"data in the workspace", "ws/data", "ws", nil, "keep them apart"},
		{"not there yet", "new/data", "new", nil, "keep them apart"},
		{"the same", "ws", "ws", nil, "keep them apart"},
		{"the workspace in data", "data", "data/ws", nil, "keep them apart"},
		{"data by a link", "into", "ws", nil, "keep them apart"},
		{"data by a link to what is not there yet", "later", "ws", nil, "keep them apart"},
		{"below such a link", "later/data", "ws", nil, "keep them apart"},
		{"the workspace by a link", "ws/data", "again", nil, "keep them apart"},
		{"dots", "data/../ws/data", "ws", nil, "keep them apart"},
		{"a link to itself", "loop", "ws", nil, "cannot check"},
		{"the token", "data2", "ws", nil, "the token file: "},
		{"rules", "data", "ws", []string{"--rules", at("ws/rules.yaml")}, "rules: "},
		{"rules elsewhere", "data", "ws", []string{"--rules", at("rules.yaml")}, ""},
		{"the configuration file", "data", "ws", []string{"--config", at("ws/toold.yaml")}, "the configuration file: "},
		{"rules over a link in the workspace", "data", "ws", []string{"--rules", at("ws/up/rules.yaml")}, "rules: the path to "},
		{"dots after a link, in the workspace", "ws/data", "deep/../ws", nil, "keep them apart"},
		{"dots after a link, in data", "deep/../ws/data", "ws", nil, "keep them apart"},
		{"the workspace in data by dots after a link", "deep/../data", "data/ws", nil, "keep them apart"},
		{"rules by dots after a link", "data", "ws", []string{"--rules", dir + "/deep/../ws/rules.yaml"}, "rules: "},
		{"rules by dots after a link, into another workspace", "data", "other", []string{"--rules", dir + "/deep/../rules.yaml"}, "rules: "},
		{"rules over a directory of the workspace", "data", "ws", []string{"--rules", dir + "/ws/sub/../../rules.yaml"}, "rules: the path to "},
		{"rules over the workspace itself", "data", "ws", []string{"--rules", dir + "/ws/../rules.yaml"}, ""},
		{"a workspace that is a link itself", "data", "again", []string{"--rules", dir + "/again/up/rules.yaml"}, "rules: the path to "},
		{"manifests over a link in the workspace", "data", "ws", []string{"--command-directory", at("ws/up/out")}, "command.directory: the path to "},
		{"data over a link in the workspace", "ws/up/data", "ws", nil, "data: the path to "},
		{"the socket", "data", "ws", []string{"--listen-unix", at("ws/s")}, "listen.unix: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data, workspace := dir+"/"+tt.data, dir+"/"+tt.workspace
			_, err := load(t, "", nil, append([]string{"--data", data, "--workspace", workspace}, tt.more...)...)
			if tt.say == "" {
				must(t, err)
				return
			}
			if _, usage := errors.AsType[Error](err); !usage || !strings.Contains(err.Error(), tt.say) {
				t.Errorf("got %v, want an Error that says %q", err, tt.say)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
