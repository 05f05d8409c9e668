package permission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// first returns the first token of a node. For a mapping, the library would return its first colon.
func first(n ast.Node) *token.Token {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return n.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		return n.Key.GetToken()
	}
	return n.GetToken()
}

// eachMember reads a mapping. A key that is not in members is an error.
func eachMember(n ast.Node, members map[string]func(ast.Node) error) error {
	return eachPair(n, func(key, value ast.Node, name string) error {
		read, known := members[name]
		if !known {
			return wrong(key, "unknown key %q; known are %s", clip(name, 40), strings.Join(sortedKeys(members), ", "))
		}
		return read(value)
	})
}

// maxNamed bounds the layers of a file.
const maxNamed = 200

// eachNamed reads a mapping whose keys are names.
func eachNamed(n ast.Node, read func(key, value ast.Node, name string) error) error {
	count := 0
	return eachPair(n, func(key, value ast.Node, name string) error {
		if count++; count > maxNamed {
			return wrong(key, "has more than %d names", maxNamed)
		}
		if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return wrong(key, "%q is not a name of 1 to 64 bytes without spaces", clip(name, 40))
		}
		return read(key, value, name)
	})
}

// eachPair reads a mapping. A duplicate key is an error.
func eachPair(n ast.Node, read func(key, value ast.Node, name string) error) error {
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		return wrong(n, "want a mapping, found %s", kind(n))
	}
	seen := map[string]bool{}
	for _, pair := range pairs {
		key, err := scalar(pair.Key)
		if err != nil {
			return err
		}
		if seen[key] {
			return wrong(pair.Key, "the key %q occurs twice", clip(key, 40))
		}
		seen[key] = true
		if err := read(pair.Key, pair.Value, key); err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys(members map[string]func(ast.Node) error) []string {
	var keys []string
	for key := range members {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func sequence(n ast.Node) ([]ast.Node, error) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		return nil, wrong(n, "want a list, found %s", kind(n))
	}
	return s.Values, nil
}

// list reads a list with at least one item. An empty list is refused, because it would match everything.
func list[T any](n ast.Node, read func(ast.Node) (T, error)) ([]T, error) {
	nodes, err := sequence(n)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, wrong(n, "the list is empty; omit it, or add an element")
	}
	items := make([]T, 0, len(nodes))
	for _, node := range nodes {
		item, err := read(node)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// scalar returns the text of a scalar as it is written. It refuses anchors, aliases and tags, because with them the meaning depends on
// another part of the file.
func scalar(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.AliasNode:
		return "", wrong(n, `aliases are not supported; a glob that begins with * needs quotes: "*"`)
	}
	return "", wrong(n, "want a word, found %s", kind(n))
}

// text reads a string that people or models may see.
func text(n ast.Node) (string, error) {
	if _, isText := n.(*ast.StringNode); !isText {
		if _, isText := n.(*ast.LiteralNode); !isText {
			if _, err := scalar(n); err != nil {
				return "", err
			}
			return "", wrong(n, "want text, found %s; put it in quotes", kind(n))
		}
	}
	s, err := scalar(n)
	if err != nil {
		return "", err
	}
	s = strings.TrimSpace(s)
	if s == "" || len(s) > maxText {
		return "", wrong(n, "has %d bytes; want 1 to %d", len(s), maxText)
	}
	return s, nil
}

func boolean(n ast.Node) (bool, error) {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		return false, wrong(n, "want true or false, found %s", kind(n))
	}
	return b.Value, nil
}

// word reads one of the allowed words.
func word[T ~string](n ast.Node, allowed []T) (T, error) {
	s, err := scalar(n)
	if err != nil {
		return "", err
	}
	if !slices.Contains(allowed, T(s)) {
		names := make([]string, len(allowed))
		for i, a := range allowed {
			names[i] = string(a)
		}
		return "", wrong(n, "unknown %q; want %s", clip(s, 40), strings.Join(names, ", "))
	}
	return T(s), nil
}

func words[T ~string](n ast.Node, allowed []T) ([]T, error) {
	return list(n, func(n ast.Node) (T, error) { return word(n, allowed) })
}

// kind names the kind of a node, for errors.
func kind(n ast.Node) string {
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		return "an anchor, alias, tag or merge key, which are not supported"
	default:
		return fmt.Sprintf("%q", clip(n.GetToken().Value, 40))
	}
}
