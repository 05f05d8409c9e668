package call

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// AppendCanonical appends the canonical form v1 of a value to dst. Digests are computed from these bytes. The canonical form has:
//
//   - no white space
//   - members sorted by the UTF-8 bytes of their names
//   - the string escapes of RFC 8785
//   - number tokens unchanged
//
// Numbers keep their token, so 1, 1.0 and 1e0 differ. RFC 8785 would make them equal, but it would also make different integers above 2^53
// equal.
//
// The value comes from [ParseJSON] or from code of toold. It consists of maps, slices, strings, bools, integers and named types of these
// scalars. Any other type, such as a float, is a bug in toold and panics. Strings are not checked: invalid UTF-8 stays unchanged, so that
// two different strings never have the same form.
func AppendCanonical(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case string:
		return tool.AppendQuoted(dst, v)
	case json.Number:
		return append(dst, v...)
	case map[string]any:
		return appendCanonicalObject(dst, v)
	case []any:
		dst = append(dst, '[')
		for i, element := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendCanonical(dst, element)
		}
		return append(dst, ']')
	}
	return appendCanonicalScalar(dst, reflect.ValueOf(v))
}

func appendCanonicalObject(dst []byte, object map[string]any) []byte {
	var few [16]string
	names := few[:0]
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = tool.AppendQuoted(dst, name)
		dst = append(dst, ':')
		dst = AppendCanonical(dst, object[name])
	}
	return append(dst, '}')
}

func appendCanonicalScalar(dst []byte, v reflect.Value) []byte {
	switch {
	case v.Kind() == reflect.String:
		return tool.AppendQuoted(dst, v.String())
	case v.Kind() == reflect.Bool:
		return strconv.AppendBool(dst, v.Bool())
	case v.CanInt():
		return strconv.AppendInt(dst, v.Int(), 10)
	case v.CanUint():
		return strconv.AppendUint(dst, v.Uint(), 10)
	}
	panic(fmt.Sprintf("call: no canonical form of a %v", v.Type()))
}

// write appends a token of the text to the canonical form, unchanged.
func (p *jsonParser) write(token string) {
	if p.writes {
		p.form = append(p.form, token...)
	}
}

func (p *jsonParser) writeByte(c byte) {
	if p.writes {
		p.form = append(p.form, c)
	}
}

// sortForm sorts the members of an object at the end of the canonical form.
func (p *jsonParser) sortForm(members []jsonMember) {
	if !p.writes || sorted(members) {
		return
	}
	var few [16]int
	order := few[:0]
	for i := range members {
		order = append(order, i)
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(members[a].name, members[b].name) })
	p.sorting = p.sorting[:0]
	for i, at := range order {
		if i > 0 {
			p.sorting = append(p.sorting, ',')
		}
		p.sorting = append(p.sorting, p.form[members[at].from:members[at].to]...)
	}
	p.form = append(p.form[:members[0].from], p.sorting...)
}

func sorted(members []jsonMember) bool {
	for i := 1; i < len(members); i++ {
		if members[i].name < members[i-1].name {
			return false
		}
	}
	return true
}
