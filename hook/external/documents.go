package external

import (
	"fmt"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// A DocumentKey names a document that a hook receives. A hook receives no other documents, because reading all of them for each question
// would slow every call.
type DocumentKey struct {
	Scope tool.Scope
	Key   string
}

// ParseDocumentKey parses RUN/key, THREAD/key or NAMESPACE/key.
func ParseDocumentKey(text string) (DocumentKey, error) {
	scope, key, ok := strings.Cut(text, "/")
	k := DocumentKey{Scope: tool.Scope(scope), Key: key}
	if !ok || key == "" || !isScope(k.Scope) {
		return k, fmt.Errorf("%q is not RUN/key, THREAD/key or NAMESPACE/key", text)
	}
	return k, nil
}

func isScope(s tool.Scope) bool {
	return s == tool.RunScope || s == tool.ThreadScope || s == tool.NamespaceScope
}

// Documents returns the documents with these keys that the call sees. It omits documents that do not exist.
func Documents(in *hook.Input, keys []DocumentKey) ([]tool.Document, error) {
	var found []tool.Document
	for _, k := range keys {
		if in.Documents == nil {
			break
		}
		d, ok, err := in.Documents.Get(k.Scope, k.Key)
		if err != nil {
			return nil, fmt.Errorf("document %s/%s: %w", k.Scope, k.Key, err)
		}
		if ok {
			found = append(found, d)
		}
	}
	return found, nil
}

// maxDocument is the largest document that a hook may set, in bytes.
const maxDocument = 256 << 10

// CheckCommands returns a [*hook.ProtocolError] when a document command of a hook is invalid.
func CheckCommands(commands []tool.Command) error {
	for i, c := range commands {
		wrong := func(format string, args ...any) error {
			return &hook.ProtocolError{Message: fmt.Sprintf("document command %d: ", i+1) + fmt.Sprintf(format, args...)}
		}
		switch {
		case !isScope(c.Scope):
			return wrong("scope %q is not RUN, THREAD or NAMESPACE", c.Scope)
		case c.Key == "" || len(c.Key) > 256:
			return wrong("a key must have 1 to 256 bytes")
		case c.Op == tool.OpDelete && c.Value != "":
			return wrong("delete must not have a value")
		case c.Op == tool.OpSet, c.Op == tool.OpMerge, c.Op == tool.OpAdd, c.Op == tool.OpAppend:
			if _, err := call.ParseJSON(c.Value, maxDocument); err != nil {
				return wrong("value: %v", err)
			}
		case c.Op != tool.OpDelete:
			return wrong("op %q is not set, merge, delete, add or append", c.Op)
		}
	}
	return nil
}
