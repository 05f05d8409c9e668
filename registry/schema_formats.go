package registry

import (
	"maps"
	"regexp"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// formats returns the formats of the library. It replaces those that refuse valid values or take too long. Callers must not modify the map.
var formats = sync.OnceValue(func() map[string]func(any) bool {
	all := maps.Clone(jsonschema.Formats)
	all["regex"] = isRegexp
	all["uri-template"] = isURITemplate
	for _, slow := range []string{"duration", "period"} { // The library's time grows with the square of the length.
		all[slow] = short(all[slow])
	}
	for _, address := range []string{"uri", "uri-reference", "iri", "iri-reference"} {
		all[address] = withFutureHost(all[address])
	}
	return all
})

// short wraps a format so that it refuses long texts.
func short(format func(any) bool) func(any) bool {
	return func(v any) bool {
		text, ok := v.(string)
		return !ok || len(text) <= 256 && format(v)
	}
}

// isRegexp checks the format regex without compiling the expression, because a client could make compilation use too much memory. The
// format allows all expressions of ECMA-262, more than the keyword pattern does here.
func isRegexp(v any) bool {
	text, ok := v.(string)
	return !ok || len(text) <= maxPatternBytes && isECMARegexp(text)
}

// uriTemplate matches URI templates of RFC 6570: literals, and expressions with operators and modifiers.
var uriTemplate = sync.OnceValue(func() *regexp.Regexp {
	const (
		char     = `(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})`
		variable = char + `(?:\.?` + char + `)*(?:\*|:[1-9][0-9]{0,3})?`
		literal  = "[^\\x00-\\x20\\x7f\"%<>\\\\^`{|}]|%[0-9A-Fa-f]{2}"
	)
	return regexp.MustCompile(`^(?:` + literal + `|\{[+#./;?&=,!@|]?` + variable + `(?:,` + variable + `)*\})*$`)
})

func isURITemplate(v any) bool {
	text, ok := v.(string)
	return !ok || uriTemplate().MatchString(text)
}

// futureHost matches an IPvFuture host of RFC 3986, which the library does not support.
var futureHost = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([^/?#]*//(?:[^/?#@]*@)?)\[[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+\]`)
})

func withFutureHost(format func(any) bool) func(any) bool {
	return func(v any) bool {
		if text, ok := v.(string); ok && strings.Contains(strings.ToLower(text), "[v") {
			return format(futureHost().ReplaceAllString(text, "${1}[::1]"))
		}
		return format(v)
	}
}
