package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// maxTools is the maximum number of tools accepted from one server.
const maxTools = 512

// maxShown is the maximum number of different tools that a server may list over time. It is limited because the daemon never deletes the
// definition of a tool.
const maxShown = 4 * maxTools

// maxList is the maximum size of a server's list in bytes, because the journal stores the list.
const maxList = 4 << 20

// maxPages is the maximum number of pages of a list.
const maxPages = 64

// maxID is the maximum length of an id, in bytes.
const maxID = 64

// remoteName matches the tool names that the protocol permits. It excludes spaces and look-alike letters, because a person must be able to
// distinguish names.
var remoteName = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,128}$`)

// prefix returns the prefix for the ids of a server's tools. This is the server's key, in which _ replaces the characters that ids must not
// contain. It is empty when the key has no valid character.
func prefix(key string) string {
	var b strings.Builder
	some := false
	for _, r := range key {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			some = true
			b.WriteRune(r)
		case r == '-' || r == '_':
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
	}
	if !some {
		return ""
	}
	p := b.String()
	if p[0] == '-' || p[0] >= '0' && p[0] <= '9' {
		p = "_" + p
	}
	return p + "__"
}

// toolID returns the id of a server's tool. It truncates an id that is too long, and appends 8 hex digits of the SHA-256 of the prefix and
// the name.
func toolID(key, name string) (string, error) {
	if !remoteName.MatchString(name) {
		return "", fmt.Errorf("the name %q does not consist of 1 to 128 of the characters a-z, A-Z, 0-9, _, -, . and /", cut(name, 200))
	}
	id := prefix(key) + strings.NewReplacer(".", "_", "/", "_").Replace(name)
	if len(id) > maxID {
		sum := sha256.Sum256([]byte(prefix(key) + name))
		id = id[:maxID-9] + "_" + hex.EncodeToString(sum[:4])
	}
	return id, tool.ValidName(id)
}

// errTaskAlone is the reason to refuse a tool that runs only as a task.
var errTaskAlone = errors.New(`it only runs as a task (taskSupport is "required"), and toold does not support tasks of MCP`)

// taskAlone reports whether the server accepts calls of a tool only when they ask for a task.
func taskAlone(t *sdk.Tool) bool {
	text, _ := t.Meta[execution].(string)
	var hints struct {
		TaskSupport string `json:"taskSupport"`
	}
	return json.Unmarshal([]byte(text), &hints) == nil && hints.TaskSupport == "required"
}

// describe returns the descriptor for a tool of a server.
func (e *Entry) describe(t *sdk.Tool, instructions string) (tool.Descriptor, error) {
	id, err := toolID(e.Key, t.Name)
	if err != nil {
		return tool.Descriptor{}, err
	}
	d := tool.Descriptor{
		ID: id, DisplayName: cleanLine(e.Key+": "+title(t), maxTitle), Category: "mcp",
		Description: clean(t.Description, maxDescription),
		Guidance:    instructions, Effects: e.effects(t.Annotations),
		RequiredIsolation: tool.IsolationNone, RequiredNetwork: "open", // Without isolation, the tool can reach everything that the daemon's user can reach.
		Annotations: map[string]string{"mcp_server": cleanLine(e.Key, maxTitle), "mcp_tool": t.Name},
	}
	if e.Policy != nil {
		d.RequiredIsolation, d.RequiredNetwork = tool.IsolationFull, "none"
		if n := e.Policy.Network; n == sandbox.NetworkOpen || n == sandbox.NetworkProxy {
			d.RequiredNetwork = string(n)
		}
	}
	a := t.Annotations
	d.Idempotent = e.Trust != TrustNone && a != nil && (a.IdempotentHint || a.ReadOnlyHint)
	if d.Parameters, err = schemaText(t.Meta[exactInput], t.InputSchema); err != nil {
		return d, fmt.Errorf("inputSchema: %w", err)
	}
	if d.ResultSchema, err = schemaText(t.Meta[exactOutput], t.OutputSchema); err != nil {
		return d, fmt.Errorf("outputSchema: %w", err)
	}
	return d, nil
}

// claimed returns the descriptor that follows from what the server sent, without the operator's settings.
func (e *Entry) claimed(t *sdk.Tool, d tool.Descriptor) tool.Descriptor {
	trusting := Entry{Trust: TrustFull}
	d.Effects = trusting.effects(t.Annotations)
	d.Idempotent = t.Annotations != nil && t.Annotations.IdempotentHint
	d.RequiredIsolation, d.RequiredNetwork = "", ""
	return d
}

func title(t *sdk.Tool) string {
	if t.Title != "" {
		return t.Title
	}
	if t.Annotations != nil && t.Annotations.Title != "" {
		return t.Annotations.Title
	}
	return t.Name
}

// effects returns the effects of a tool. Hints that make a tool stricter always count. Other hints count as far as the operator trusts the
// server.
func (e *Entry) effects(a *sdk.ToolAnnotations) tool.Effects {
	out := tool.Effects{Mutability: tool.Mutating, Safety: tool.SafetyMutating, Tier: tool.Confirm, OpenWorld: true}
	if a == nil {
		return out
	}
	open := a.OpenWorldHint == nil || *a.OpenWorldHint
	switch {
	case a.ReadOnlyHint && e.Trust != TrustNone:
		out = tool.Effects{Mutability: tool.ReadOnly, Safety: tool.SafetyReadOnly, Tier: tool.Confirm, OpenWorld: open, ConcurrencySafe: true}
		if open {
			out.Safety = tool.SafetyNetwork
		}
		if e.Trust == TrustFull {
			out.Tier = tool.Observe
		}
	case a.DestructiveHint != nil && *a.DestructiveHint && !a.ReadOnlyHint:
		out.Safety = tool.SafetyDestructive
		out.OpenWorld = open || e.Trust == TrustNone
	default:
		out.OpenWorld = open || e.Trust == TrustNone
	}
	return out
}

// takes reports whether the operator selected a tool.
func (e *Entry) takes(name string) bool {
	return len(e.Tools) == 0 || tool.AnyGlob(e.Tools, name)
}
