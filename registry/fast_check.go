package registry

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/toold-dev/toold/call"
)

// The limits of one fast check, which then takes at most about 10 ms. A larger value is checked by the library with its own meter. A visit
// takes a tenth of the time of a visit of the library.
const (
	fastVisits      = checkPrice / visitPrice
	fastPatterns    = maxPatternEffort / 8
	fastFormatBytes = 256 // Some formats of the library take time proportional to the square of the length.
)

// A fastBudget counts how many visits and pattern steps one fast check may still use.
type fastBudget struct{ visits, patterns int64 }

// surely reports whether v certainly matches the schema and the limits of [Schema.Validate]. When it returns false, the library decides.
func (f *fastSchema) surely(v any) bool {
	if f == nil {
		return false
	}
	left := fastBudget{fastVisits, fastPatterns}
	return f.valid(v, 1, &left)
}

func (f *fastSchema) valid(v any, depth int, left *fastBudget) bool {
	left.visits--
	if f.never || left.visits < 0 || depth > call.MaxDepth+1 || !f.validHere(v, depth, left) {
		return false
	}
	for _, part := range f.all {
		if !part.valid(v, depth, left) {
			return false
		}
	}
	for _, form := range f.any {
		if form.valid(v, depth, left) {
			return true
		}
	}
	return len(f.any) == 0
}

// validHere checks v without the subschemas that apply to the same value.
func (f *fastSchema) validHere(v any, depth int, left *fastBudget) bool {
	switch value := v.(type) {
	case string:
		return f.validString(value, left) && (f.format == nil || len(value) <= fastFormatBytes && f.format(v))
	case json.Number:
		return f.validNumber(string(value))
	case map[string]any:
		return f.types.allow(kindObject) && f.values == nil && f.validObject(value, depth, left)
	case []any:
		return f.types.allow(kindArray) && f.values == nil && f.validArray(value, depth, left)
	case bool:
		return f.types.allow(kindBoolean) && f.among(func(values *fastValues) bool { return value && values.yes || !value && values.no })
	case nil:
		return f.types.allow(kindNull) && f.among(func(values *fastValues) bool { return values.null })
	}
	return false
}

// among reports whether a value is in enum and const, if the schema has them.
func (f *fastSchema) among(has func(*fastValues) bool) bool {
	for _, values := range f.values {
		if !has(values) {
			return false
		}
	}
	return true
}

func (f *fastSchema) validString(v string, left *fastBudget) bool {
	left.visits -= int64(len(v) / 64)
	if !f.types.allow(kindString) || len(v) < f.minLength {
		return false
	}
	if f.minLength > 1 || len(v) > f.maxLength { // A text has at most as many characters as bytes.
		if n := utf8.RuneCountInString(v); n < f.minLength || n > f.maxLength {
			return false
		}
	}
	if f.pattern != nil {
		left.patterns -= f.steps * int64(len(v))
		if left.patterns < 0 || !f.pattern.MatchString(v) {
			return false
		}
	}
	return f.among(func(values *fastValues) bool { _, there := values.texts[v]; return there })
}

func (f *fastSchema) validNumber(token string) bool {
	d, ok := parseDecimal(token)
	switch {
	case !ok,
		!f.types.allow(kindNumber) && !(d.isInteger() && f.types.allow(kindInteger)),
		f.atLeast != nil && d.compare(*f.atLeast) < 0,
		f.above != nil && d.compare(*f.above) <= 0,
		f.atMost != nil && d.compare(*f.atMost) > 0,
		f.below != nil && d.compare(*f.below) >= 0:
		return false
	}
	return f.among(func(values *fastValues) bool { _, there := values.numbers[d]; return there })
}

func (f *fastSchema) validArray(v []any, depth int, left *fastBudget) bool {
	if len(v) < f.minItems || len(v) > f.maxItems {
		return false
	}
	for _, item := range v {
		if !f.items.valid(item, depth+1, left) {
			return false
		}
	}
	return true
}

func (f *fastSchema) validObject(v map[string]any, depth int, left *fastBudget) bool {
	if len(v) < f.minProperties || len(v) > f.maxProperties {
		return false
	}
	for _, name := range f.required {
		if _, there := v[name]; !there {
			return false
		}
	}
	for name, value := range v {
		left.visits -= int64(len(name) / 64)
		member := f.properties[name]
		if member == nil {
			member = f.additional
		}
		if !member.valid(value, depth+1, left) {
			return false
		}
	}
	return true
}
