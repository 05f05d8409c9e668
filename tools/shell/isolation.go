package shell

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// isolation describes a sandbox policy: in the terms of a descriptor, and as texts for models and people.
type isolation struct {
	required tool.Isolation
	network  string
	model    string // text in the description that models read
	person   string // text for the approver
	operator string
}

func (cfg *Config) isolation() isolation {
	p := cfg.Policy
	if p == nil {
		return isolation{
			tool.IsolationNone, "open", // Without a policy, the command can reach everything that the daemon's user can reach.
			"There is no isolation: the command has all rights of the user that runs toold.",
			"Runs without isolation, with the rights of the user that runs toold.",
			"none: commands run with the rights of the daemon's user",
		}
	}
	i := isolation{
		tool.IsolationFull, "none", "The command is isolated: it sees only the workspace and the system's programs, /tmp is private and empty, ",
		"Runs isolated, without network.", "full: namespaces, Landlock, list of permitted system calls",
	}
	switch p.Network {
	case sandbox.NetworkOpen:
		i.network, i.person = "open", "Runs isolated, but reaches the network."
		i.model += "and the network is open."
	case sandbox.NetworkProxy:
		i.network, i.person = "proxy", "Runs isolated, and reaches "+reached(p)+" through a proxy."
		i.model += "and it reaches only " + reached(p) + " through the HTTP proxy in its environment."
	default:
		i.model += "and there is no network."
	}
	if p.ReadOnly {
		i.model += " The workspace is read-only."
	}
	if p.Unsupervised {
		i.required, i.operator = tool.IsolationNone, "files and network: Landlock, list of permitted system calls; processes are not isolated"
		i.person = "Files and network are isolated; processes are not."
	}
	return i
}

// reached returns a text that lists the hosts that the proxy of a policy permits.
func reached(p *sandbox.Policy) string {
	const most = 5
	switch n := len(p.Hosts); {
	case n == 0:
		return "the public web"
	case n > most:
		return fmt.Sprintf("%s and %d more hosts", strings.Join(p.Hosts[:most], ", "), n-most)
	}
	return strings.Join(p.Hosts, ", ")
}

// notStarted returns the error of a call whose command could not be started.
func notStarted(err error) error {
	if errors.Is(err, tool.ErrNotRun) {
		return err // err already says that nothing was started, and why.
	}
	if errors.Is(err, sandbox.ErrKept) {
		return fmt.Errorf("%w: %w", tool.ErrNotRun, &tool.Error{
			Code: tool.Interrupted, Reason: "JOURNAL", Message: "Not run", Retryable: true, Aborted: true, DeveloperMessage: err.Error(),
		})
	}
	if refused, ok := errors.AsType[*sandbox.RefusedError](err); ok {
		return &tool.Error{
			Code: tool.Sandbox, Reason: refused.Fact, Aborted: true, DeveloperMessage: err.Error(),
			Message: "Not run: the isolation that commands require is not available here: " + refused.Fact + ".",
		}
	}
	return &tool.Error{
		Code: tool.ExecutionFailed, Reason: "START_FAILED", Aborted: true,
		Message: "The command could not be started.", DeveloperMessage: err.Error(),
	}
}
