package registry

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// The limits of one check. Prices are measured values in nanoseconds and need not be exact.
const (
	checkPrice       = 100_000_000
	visitPrice       = 500
	maxPatternEffort = 1 << 26 // instructions times bytes
	patternPrice     = 3
	maxNumberLength  = 64
)

// affordable reports whether a check stays within the limits for every value of this size.
func (e effort) affordable(s size) bool {
	return !e.recursive && e.visits*s.nodes <= checkPrice/price(e.depth) && e.patterns*s.bytes <= maxPatternEffort
}

// price returns the maximum price of one visit at this depth. The price grows with depth, because the library rebuilds the path of a
// violation at each level.
func price(depth int) int64 { return visitPrice + int64(depth)*int64(depth) }

type size struct {
	nodes int64
	bytes int64 // bytes of strings and names
	depth int
}

// measure returns the size of a value, or the reason why the value must not be checked. The library computes with exact numbers, so a short
// number such as 1e999999999 could take all memory.
func measure(v any) (s size, reason string) {
	s.add(v, 1, &reason)
	return s, reason
}

func (s *size) add(v any, depth int, reason *string) {
	s.nodes++
	s.depth = max(s.depth, depth)
	if depth > call.MaxDepth+1 {
		*reason = fmt.Sprintf("is nested deeper than %d", call.MaxDepth)
		return
	}
	switch v := v.(type) {
	case string:
		s.bytes += int64(len(v))
	case json.Number:
		if !safeNumber(string(v)) {
			*reason = "holds a number that is too long to compute with"
		}
	case []any:
		for _, item := range v {
			s.add(item, depth+1, reason)
		}
	case map[string]any:
		for name, item := range v {
			s.bytes += int64(len(name))
			s.add(item, depth+1, reason)
		}
	case nil, bool:
	default:
		*reason = fmt.Sprintf("holds a %T, which is not a JSON value", v)
	}
}

// safeNumber checks a number against the limits of [call.ParseJSON]. It is fast for ordinary numbers, because most values were parsed with
// these limits.
func safeNumber(token string) bool {
	if token == "" || len(token) > maxNumberLength {
		return false
	}
	if !strings.ContainsAny(token, "eE") && strings.Trim(token, "0123456789") == "" {
		return true
	}
	v, err := call.ParseJSON(token, 0)
	_, ok := v.(json.Number)
	return err == nil && ok
}

// weigh returns the price of a visit of this subschema, relative to a plain subschema.
func weigh(schema map[string]any) int64 {
	weight := int64(1)
	for keyword, value := range schema {
		switch keyword {
		case "enum", "const":
			s, _ := measure(value)
			weight += s.nodes
		case "required", "properties", "dependentRequired":
			weight += length(value) / 8
		case "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies", "patternProperties":
			weight += length(value)
		}
	}
	return weight
}

func length(v any) int64 {
	switch v := v.(type) {
	case []any:
		return int64(len(v))
	case map[string]any:
		return int64(len(v))
	}
	return 0
}

// metered is a second compilation of a schema, made when a value first needs it. Its checks count each step and stop at the limit. Only one
// of these checks runs at a time, so an expensive value delays only values of the same schema.
type metered struct {
	mu       sync.Mutex
	compiled *jsonschema.Schema
	meter    meter
}

// validateMetered checks a value whose check may reach the limit.
func (s *Schema) validateMetered(v any, size size) []tool.Violation {
	m := &s.metered
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.compiled == nil {
		compiled, err := compile(s.document, s.asserted, &m.meter)
		if err != nil {
			return []tool.Violation{{Description: err.Error()}}
		}
		m.compiled = compiled
	}
	depth := s.effort.depth
	if s.effort.recursive {
		depth = s.effort.height * (size.depth + 1)
	}
	m.meter = meter{left: checkPrice, visit: price(depth)}
	return s.explain(run(m.compiled, v), v)
}

// A meter has the remaining budget of a check.
type meter struct{ left, visit int64 }

func (m *meter) charge(nanoseconds int64) {
	if m.left -= nanoseconds; m.left < 0 {
		panic(errTooComplex)
	}
}

// An extension adds the patterns of toold and the meter to the library.
type extension struct{ meter *meter }

func (x extension) Compile(_ jsonschema.CompilerContext, schema map[string]any) (jsonschema.ExtSchema, error) {
	c := check{meter: x.meter}
	if text, ok := schema[patternKeyword].(string); ok {
		goText := goPattern(text)
		steps, err := patternSteps(text, goText)
		if err != nil {
			return nil, err
		}
		c.steps, c.pattern = steps, regexp.MustCompile(goText)
	}
	if c.pattern == nil && c.meter == nil {
		return nil, nil
	}
	c.weight = weigh(schema)
	return &c, nil
}

// A check is the extension in one subschema. The library calls it after the subschema's members.
type check struct {
	meter   *meter
	weight  int64
	pattern *regexp.Regexp
	steps   int64
}

func (c *check) Validate(ctx jsonschema.ValidationContext, v any) error {
	if c.meter != nil {
		// The library does not visit members of the wrong type, so count them here.
		c.meter.charge((c.weight + length(v)) * c.meter.visit)
	}
	text, ok := v.(string)
	if !ok || c.pattern == nil {
		return nil
	}
	if c.meter != nil {
		c.meter.charge(c.steps * int64(len(text)) * patternPrice)
	}
	if !c.pattern.MatchString(text) {
		return ctx.Error(patternKeyword, "does not match")
	}
	return nil
}
