package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker/link"
)

// ErrTaken means that another source has a tool of this name.
var ErrTaken = errors.New("the name is taken")

func refusal(t *offered, err error) link.Refusal {
	reason := link.Invalid
	if errors.Is(err, ErrTaken) {
		reason = link.Taken
	}
	return link.Refusal{Tool: t.offer.Descriptor.ID, Reason: reason, Message: err.Error()}
}

// An InvalidError describes an invalid part of an offer.
type InvalidError struct{ Field, Message string }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Message }

// ErrTooMany means that the namespace has the maximum number of workers.
var ErrTooMany = errors.New("too many workers")

// ErrClosed means that the daemon is stopping and accepts no workers.
var ErrClosed = errors.New("no more workers are allowed")

// Limits of an offer.
const (
	defaultLimit = 16
	maxLimit     = 1024
	maxTools     = 256
	maxKnown     = 4096 // maximum number of tools of a namespace, in all pools together; counts all tools that were ever offered and are not deleted yet
	maxDocuments = 32
	maxLabels    = 64
	maxText      = 256
	maxName      = 64      // maximum length of a rejected name in messages, in bytes
	maxWhy       = 2 << 10 // maximum size of a refusal's message, in bytes; limited because the message is stored, logged and shown to operators
)

// plainName matches valid names of workers. It excludes characters that logs, terminals or file systems interpret.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._:@/+()-]*$`)

func isPlain(name string) bool {
	return name == "" || plainName.MatchString(name) && !strings.Contains(name, "..")
}

var poolName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func checkOffer(o *link.Offer) error {
	switch {
	case !poolName.MatchString(o.Pool):
		return &InvalidError{"register.pool", fmt.Sprintf("is %q; want 1 to 64 of the characters a-z, 0-9, ., _ and -", clip(o.Pool, maxName))}
	case len(o.Name) > maxText, len(o.Version) > maxText:
		return &InvalidError{"register.name", fmt.Sprintf("and version have at most %d bytes", maxText)}
	case !isPlain(o.Name), !isPlain(o.Version):
		return &InvalidError{"register.name", fmt.Sprintf("is %+q, the version %+q; want letters, digits, spaces and ._:@/+()- without ..", clip(o.Name, maxName), clip(o.Version, maxName))}
	case len(o.Labels) > maxLabels:
		return &InvalidError{"register.labels", fmt.Sprintf("has %d entries; at most %d are accepted", len(o.Labels), maxLabels)}
	case o.Limit < 0 || o.Limit > maxLimit:
		return &InvalidError{"register.max_calls", fmt.Sprintf("is %d; want 0 to %d", o.Limit, maxLimit)}
	case len(o.Tools) == 0 || len(o.Tools) > maxTools:
		return &InvalidError{"register.tools", fmt.Sprintf("has %d entries; want 1 to %d", len(o.Tools), maxTools)}
	case len(o.Held) > maxLimit:
		return &InvalidError{"register.held", fmt.Sprintf("has %d entries; at most %d are accepted", len(o.Held), maxLimit)}
	}
	for key, value := range o.Labels {
		if key == "" || len(key) > maxText || len(value) > maxText {
			return &InvalidError{"register.labels", fmt.Sprintf("keys must have 1 to %[1]d bytes, values at most %[1]d", maxText)}
		}
		if strings.ContainsFunc(key+value, func(c rune) bool { return !unicode.IsPrint(c) }) {
			return &InvalidError{"register.labels", fmt.Sprintf("%+q: %+q has a character that cannot be printed", clip(key, maxName), clip(value, maxName))}
		}
	}
	seen := map[string]bool{}
	for _, t := range o.Tools {
		if seen[t.Descriptor.ID] {
			return &InvalidError{"register.tools", fmt.Sprintf("has %q twice", clip(t.Descriptor.ID, maxName))}
		}
		seen[t.Descriptor.ID] = true
	}
	return nil
}

// clip shortens a text at a character boundary, because protobuf does not accept an incomplete character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// checkTool returns an error for a tool that a worker may not offer.
func checkTool(o *link.Tool) error {
	d := &o.Descriptor
	switch {
	case d.RequiredIsolation == tool.IsolationFull:
		return errors.New("required_isolation: toold isolates nothing that runs in a worker")
	case len(d.RequiredSecrets) > 0:
		return errors.New("required_secrets: toold gives no secrets to a worker")
	case len(o.Documents) > maxDocuments:
		return fmt.Errorf("documents: has %d entries; at most %d are accepted", len(o.Documents), maxDocuments)
	}
	for _, k := range o.Documents {
		if k.Scope == "" || k.Key == "" || len(k.Key) > maxText {
			return errors.New("documents: each needs a scope and a key of 1 to 256 bytes")
		}
	}
	return tool.ValidName(d.ID)
}

// definition returns a text that identifies the definition of a tool. Only workers with equal definitions serve a tool together.
func definition(o *link.Tool) (string, error) {
	digest, err := o.Descriptor.Digest()
	if err != nil {
		return "", err
	}
	rest := *o
	rest.Descriptor = tool.Descriptor{}
	text, err := json.Marshal(rest)
	return digest + string(text), err
}
