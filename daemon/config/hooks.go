package config

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/toold-dev/toold/hook/external"
	"github.com/toold-dev/toold/plugins/remote"
	"github.com/toold-dev/toold/setting"
)

// Hook is one entry of the list of hooks: an external hook, or the position of a built-in plugin.
type Hook struct {
	Builtin   string          `yaml:"builtin" unique:"true" help:"name of a plugin of the daemon that runs at this position; such an entry has no other setting"`
	Name      string          `yaml:"name" unique:"true" format:"id" help:"name in records, logs and metrics; required for a program or service"`
	Kinds     []string        `yaml:"kinds" unique:"true" oneof:"rewrite gate admit before after filter" help:"kinds of the hook; if empty, gate; only services can be filter"`
	Command   []string        `yaml:"command" help:"absolute path of a program, and its arguments; an entry has either command or remote" see:"plugins/command.md"`
	Remote    remote.Settings `yaml:"remote"`
	Dir       string          `yaml:"dir" format:"absolute" help:"directory in which the program starts; if empty, /"`
	Env       []string        `yaml:"env" format:"variable" secret:"true" help:"environment of the program, in addition to PATH, LANG and TOOLD_HOOK: NAME=value, or NAME for the value that the daemon has"`
	Documents []string        `yaml:"documents" help:"documents that toold includes in questions to the hook, as RUN/key, THREAD/key or NAMESPACE/key"`
	Match     Match           `yaml:"match"`
	Deadline  time.Duration   `yaml:"deadline" default:"5s" min:"1ms" max:"5m" help:"longest time of one question, including the wait for earlier questions"`
	OnFailure string          `yaml:"on_failure" default:"refuse" oneof:"refuse allow block" help:"what toold does when the hook fails: refuse the call, allow it, or block its run"`
	AtOnce    int             `yaml:"at_once" default:"0" min:"0" max:"10000" help:"largest number of questions that the hook answers at the same time; 0 means 16 for a program and 64 for a service"`
	MaxAnswer int             `yaml:"max_answer" default:"1048576" min:"1" max:"16777216" help:"largest size of an answer, in bytes"`
}

// Match limits a hook to some calls. A call must match every list that is not empty.
type Match struct {
	Tools      []string `yaml:"tools" format:"glob" help:"globs on tool ids; an empty list matches every tool"`
	Sources    []string `yaml:"sources" help:"sources of tools, such as builtin; an empty list matches every source"`
	Mutability []string `yaml:"mutability" oneof:"READ_ONLY MUTATING" help:"mutability of calls; an empty list matches every call"`
	Safety     []string `yaml:"safety" oneof:"READ_ONLY MUTATING NETWORK DESTRUCTIVE" help:"safety of calls; an empty list matches every call"`
}

// EffectiveKinds returns the kinds of the hook, with the default applied.
func (h *Hook) EffectiveKinds() []string {
	if len(h.Kinds) == 0 {
		return []string{"gate"}
	}
	return h.Kinds
}

// Check implements [setting.Checker].
func (h *Hook) Check() (wrong setting.Problems) {
	program, service := len(h.Command) > 0, h.Remote != (remote.Settings{})
	switch {
	case h.Builtin != "" && (h.Name != "" || program || service):
		wrong.Add("builtin", "names a plugin of the daemon, which has its own settings; the entry must have no other field")
	case h.Builtin != "":
		return nil
	case h.Name == "":
		wrong.Add("name", "is required")
	}
	switch {
	case program == service:
		wrong.Add("", "want either a command or a remote service")
	case program && !filepath.IsAbs(h.Command[0]):
		wrong.Add("command", "want the absolute path of a program, and arguments")
	case program && slices.Contains(h.Kinds, "filter"):
		wrong.Add("kinds", "a command cannot be a filter, because it would need a process during each call")
	case service && (h.Dir != "" || len(h.Env) > 0):
		wrong.Add("", "dir and env are only for commands")
	}
	if h.OnFailure == "block" && slices.ContainsFunc(h.EffectiveKinds(), func(k string) bool { return k == "before" || k == "after" }) {
		wrong.Add("on_failure", "a before or after hook cannot block")
	}
	if h.OnFailure != "refuse" && slices.Contains(h.Kinds, "filter") {
		wrong.Add("on_failure", "a filter cannot use %q: events that a filter did not see are never published", h.OnFailure)
	}
	for _, d := range h.Documents {
		if _, err := external.ParseDocumentKey(d); err != nil {
			wrong.Add("documents", "%v", err)
		}
	}
	return wrong
}

// files returns the absolute paths in the command and the credential files of the hook. Callers must not be able to change these files.
func (h *Hook) files() (paths []string) {
	for _, word := range h.Command {
		if filepath.IsAbs(word) {
			paths = append(paths, word)
		}
	}
	for _, path := range []string{h.Remote.CA, h.Remote.Cert, h.Remote.Key, h.Remote.TokenFile} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}
