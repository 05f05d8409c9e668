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

// What one check may cost. The prices are in nanoseconds and were measured; they need not be exact.
const (
	checkPrice       = 100_000_000
	visitPrice       = 500
	maxPatternEffort = 1 << 26 // instructions times bytes
	patternPrice     = 3
	maxNumberLength  = 64
)

// affordable reports whether checking a value of this size stays within the price whatever the value is.
func (e effort) affordable(s size) bool {
	return !e.recursive && e.visits*s.nodes <= checkPrice/price(e.depth) && e.patterns*s.bytes <= maxPatternEffort
}

// price returns what one visit may cost at this depth: a violation names its place by a text that grows with the depth,
// put together anew at each step.
func price(depth int) int64 { return visitPrice + int64(depth)*int64(depth) }

// A size is what there is of a value.
type size struct {
	nodes int64
	bytes int64 // of strings and names
	depth int
}

// measure adds up a value. Reason says what makes it unfit for checking: the library computes with numbers exactly, and
// one of a few characters can take all memory.
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

// safeNumber holds a token to the limits of [call.ParseJSON]; most have passed them already, so the common case is fast.
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

// weigh returns how much dearer a visit of this subschema is than a plain one.
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

// A metered schema is compiled a second time, when a value first needs it: its checks pay for each step and are given up
// when the price is reached. One check runs at a time, so a costly value delays values of the same schema only.
type metered struct {
	mu       sync.Mutex
	compiled *jsonschema.Schema
	meter    meter
}

// validateMetered checks a value that might be too much.
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

// A meter is what a check has left to spend.
type meter struct{ left, visit int64 }

func (m *meter) charge(nanoseconds int64) {
	if m.left -= nanoseconds; m.left < 0 {
		panic(errTooComplex)
	}
}

// extension is what we add to the library: patterns, and the meter.
type extension struct{ meter *meter }

// Compile implements [jsonschema.ExtCompiler].
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

// A check is the extension in one subschema. The library asks it after the subschema's members.
type check struct {
	meter   *meter
	weight  int64
	pattern *regexp.Regexp
	steps   int64
}

// Validate implements [jsonschema.ExtSchema].
func (c *check) Validate(ctx jsonschema.ValidationContext, v any) error {
	if c.meter != nil {
		// Members that do not even have the right type are not asked; they are paid for here.
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
