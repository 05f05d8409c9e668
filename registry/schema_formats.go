package registry

import (
	"maps"
	"regexp"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// formats are those of the library, with replacements where it refuses valid values or takes too long. Callers must not change the map.
var formats = sync.OnceValue(func() map[string]func(any) bool {
	all := maps.Clone(jsonschema.Formats)
	all["regex"] = isRegexp
	all["uri-template"] = isURITemplate
	for _, slow := range []string{"duration", "period"} { // the library's time grows with the square of the text
		all[slow] = short(all[slow])
	}
	for _, address := range []string{"uri", "uri-reference", "iri", "iri-reference"} {
		all[address] = withFutureHost(all[address])
	}
	return all
})

// short returns a format that refuses long texts.
func short(format func(any) bool) func(any) bool {
	return func(v any) bool {
		text, ok := v.(string)
		return !ok || len(text) <= 256 && format(v)
	}
}

// isRegexp checks the format regex without compiling, because the client could choose how much memory that takes. The format means
// expressions of ECMA-262, which are more than a schema's pattern may use here.
func isRegexp(v any) bool {
	text, ok := v.(string)
	return !ok || len(text) <= maxPatternBytes && isECMARegexp(text)
}

// uriTemplate is RFC 6570: literals, and expressions with their operators and modifiers.
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

// futureHost is IPvFuture of RFC 3986 as a host, which the library does not know.
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
