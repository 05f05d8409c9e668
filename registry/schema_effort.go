package registry

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

const (
	maxHeight   = 32      // nesting of subschemas that apply to one value
	maxUnrolled = 100_000 // visits for a value that has each member once
	unbounded   = 1 << 40 // the limit at which sums stop growing
)

// An effort is the cost of a check, in visits of a subschema. Each use of a reference counts.
type effort struct {
	visits    int64 // maximum for each node of a value
	patterns  int64 // maximum instructions of regular expressions for each byte of a value
	depth     int   // maximum nesting of visits
	height    int   // maximum nesting of visits for one value
	recursive bool  // Visits and depth depend on the value.
}

// resolve returns the node that a reference names. It parses a pointer like the compiler.
func (in *inspector) resolve(ref reference) (*node, error) {
	missing := &SchemaError{ref.pointer, fmt.Sprintf("the reference %.100q has no target", ref.target)}
	if ref.target == "#" || ref.target == "#/" {
		return in.nodes["#"], nil
	}
	if !strings.HasPrefix(ref.target, "#/") {
		if at, ok := in.anchors[ref.target]; ok {
			return in.nodes[at], nil
		}
		return nil, missing
	}
	at, value := "#", in.root
	for _, token := range strings.Split(ref.target[2:], "/") {
		token, err := url.PathUnescape(unescapePointer(token))
		if err != nil {
			return nil, missing
		}
		next, ok := member(value, token)
		if !ok {
			return nil, missing
		}
		at, value = at+"/"+escapePointer(token), next
	}
	return in.visit(value, at)
}

// member returns the member of an object or the element of an array.
func member(value any, token string) (any, bool) {
	switch value := value.(type) {
	case map[string]any:
		next, ok := value[token]
		return next, ok
	case []any:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(value) {
			return value[i], true
		}
	}
	return nil, false
}

func escapePointer(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
}

func unescapePointer(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// estimate computes the cost of a schema. It refuses a schema whose check never ends or takes too long.
func estimate(root *node, nodes map[string]*node) (effort, error) {
	e := estimator{effort: map[*node]*effort{}, height: map[*node]int{}}
	var total effort
	for pointer, n := range nodes { // Include nodes that only a dynamic reference reaches.
		height, ok := e.heightOf(n)
		if !ok {
			return effort{}, &SchemaError{pointer, "refers to itself without going into a member: checking would never end"}
		}
		if height > maxHeight {
			return effort{}, &SchemaError{pointer, fmt.Sprintf("more than %d schemas apply to one value inside each other", maxHeight)}
		}
		total.height = max(total.height, height)
		total.recursive = total.recursive || n.dynamic
	}
	sum := e.of(root)
	total.visits, total.patterns, total.depth = sum.visits, sum.patterns, sum.depth
	total.recursive = total.recursive || sum.recursive
	if total.visits > maxUnrolled {
		return effort{}, &SchemaError{"#", fmt.Sprintf("checking would visit more than %d subschemas", maxUnrolled)}
	}
	return total, nil
}

type estimator struct {
	effort map[*node]*effort // nil while the sum of a node is incomplete
	height map[*node]int     // 0 while the height of a node is incomplete
}

// heightOf returns the nesting depth of subschemas that apply to one value. It returns false when the depth is infinite.
func (e *estimator) heightOf(n *node) (int, bool) {
	if height, seen := e.height[n]; seen {
		return height, height > 0
	}
	e.height[n] = 0
	height := 1
	for _, next := range n.inPlace {
		below, ok := e.heightOf(next)
		if !ok && !n.dynamic {
			return 0, false
		}
		height = max(height, below+1)
	}
	e.height[n] = height
	return height, true
}

// of returns the sum of the visits below n. A node that contains itself makes the sum recursive and adds nothing.
func (e *estimator) of(n *node) effort {
	if known, seen := e.effort[n]; seen {
		if known == nil {
			return effort{recursive: true}
		}
		return *known
	}
	e.effort[n] = nil
	sum := effort{visits: n.weight, patterns: n.patterns}
	for _, next := range [2][]*node{n.inPlace, n.members} {
		for _, below := range next {
			add := e.of(below)
			sum.visits = min(sum.visits+add.visits, unbounded)
			sum.patterns = min(sum.patterns+add.patterns, unbounded)
			sum.depth = max(sum.depth, add.depth)
			sum.recursive = sum.recursive || add.recursive
		}
	}
	sum.depth++
	e.effort[n] = &sum
	return sum
}
