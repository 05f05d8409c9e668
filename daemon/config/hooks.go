package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/toold-dev/toold/hook/outside"
)

// Hook is one entry of the list of hooks: an external hook, or the position of a plugin of the daemon.
type Hook struct {
	Builtin   string        `yaml:"builtin" unique:"true" help:"name of a plugin of the daemon, whose position this is; nothing else goes with it"`
	Name      string        `yaml:"name" unique:"true" format:"id" help:"name in records, logs and metrics; required for a program or service"`
	Kinds     []string      `yaml:"kinds" unique:"true" oneof:"rewrite gate admit before after filter" help:"kinds of hook that it is; none is gate, and filter is for services alone"`
	Command   []string      `yaml:"command" help:"absolute path of a program, and arguments; an entry has this or remote" see:"plugins/command.md"`
	Remote    Remote        `yaml:"remote"`
	Dir       string        `yaml:"dir" format:"absolute" help:"directory that the program starts in; empty is /"`
	Env       []string      `yaml:"env" format:"variable" secret:"true" help:"NAME=value for the program, or NAME for the daemon's own; none is PATH, LANG and TOOLD_HOOK"`
	Documents []string      `yaml:"documents" help:"documents that it is shown, as RUN/key, THREAD/key or NAMESPACE/key"`
	Match     Match         `yaml:"match"`
	Deadline  time.Duration `yaml:"deadline" default:"5s" min:"1ms" max:"5m" help:"time for one question, with the wait for others"`
	OnFailure string        `yaml:"on_failure" default:"refuse" oneof:"refuse allow block" help:"result of a failure: refuse the call, allow it, or block its run"`
	AtOnce    int           `yaml:"at_once" default:"0" min:"0" max:"10000" help:"questions that are asked at once; 0 is 16 for a program and 64 for a service"`
	MaxAnswer int           `yaml:"max_answer" default:"1048576" min:"1" max:"16777216" help:"bytes of an answer"`
}

// Remote says where a HookService is.
type Remote struct {
	Address    string `yaml:"address" help:"host:port or unix:/path of a HookService" see:"plugins/remote.md"`
	Plaintext  bool   `yaml:"plaintext" help:"use no TLS to another machine either; a unix socket and the loopback address need none"`
	CA         string `yaml:"ca" help:"PEM file of the authority of its certificate; empty is the system's"`
	Cert       string `yaml:"cert" help:"PEM file that is shown to the service, with key"`
	Key        string `yaml:"key" help:"PEM file of the key of cert"`
	ServerName string `yaml:"server_name" help:"name in its certificate; empty is the host of address"`
	TokenFile  string `yaml:"token_file" help:"file whose text is sent as bearer token"`
	Token      string `yaml:"token" format:"reference" help:"secret://name whose value is sent as bearer token, in place of token_file"`
}

// Match limits a hook to some calls: all lists that are not empty must hold.
type Match struct {
	Tools      []string `yaml:"tools" format:"glob" help:"globs on tool ids; none is all"`
	Sources    []string `yaml:"sources" help:"sources of tools, such as builtin; none is all"`
	Mutability []string `yaml:"mutability" oneof:"READ_ONLY MUTATING" help:"mutability of calls; none is any"`
	Safety     []string `yaml:"safety" oneof:"READ_ONLY MUTATING NETWORK DESTRUCTIVE" help:"safety of calls; none is any"`
}

// EffectiveKinds are those of an entry.
func (h *Hook) EffectiveKinds() []string {
	if len(h.Kinds) == 0 {
		return []string{"gate"}
	}
	return h.Kinds
}

func (c *Config) validateHooks(wrong complaint) {
	for i := range c.Hooks {
		h := &c.Hooks[i]
		here := func(field, format string, args ...any) { wrong(fmt.Sprintf("hooks[%d]%s", i, field), format, args...) }
		switch {
		case h.Builtin != "":
			if h.Name != "" || len(h.Command) > 0 || h.Remote != (Remote{}) {
				here(".builtin", "names a plugin of the daemon, whose settings are elsewhere; nothing goes with it")
			}
			continue
		case h.Name == "":
			here(".name", "is required")
		}
		switch {
		case (len(h.Command) > 0) == (h.Remote != (Remote{})):
			here("", "want either a command or a remote service")
		case len(h.Command) > 0 && !filepath.IsAbs(h.Command[0]):
			here(".command", "want the absolute path of a program, and arguments")
		case len(h.Command) > 0 && slices.Contains(h.Kinds, "filter"):
			here(".kinds", "a command is no filter: it would be a process for as long as each call")
		case len(h.Command) == 0:
			h.validateRemote(here)
		}
		if h.OnFailure == "block" && slices.ContainsFunc(h.EffectiveKinds(), func(k string) bool { return k == "before" || k == "after" }) {
			here(".on_failure", "block is nothing that a before or after hook can do")
		}
		if h.OnFailure != "refuse" && slices.Contains(h.Kinds, "filter") {
			here(".on_failure", "%q is nothing for a filter: events that a filter did not see are never published", h.OnFailure)
		}
		for _, d := range h.Documents {
			if _, err := outside.ParseDocumentKey(d); err != nil {
				here(".documents", "%v", err)
			}
		}
	}
}

func (h *Hook) validateRemote(here complaint) {
	r := &h.Remote
	if (r.Cert == "") != (r.Key == "") {
		here(".remote", "cert and key go together")
	}
	if r.Token != "" && r.TokenFile != "" {
		here(".remote", "one of token and token_file says where the token is, not two")
	}
	if h.Dir != "" || len(h.Env) > 0 {
		here("", "dir and env are of commands")
	}
}

// files are what makes a hook what it is, as far as it can be told: callers must not be able to change it.
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
