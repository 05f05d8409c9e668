package files

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/toold-dev/toold/tool"
)

// These accessors only convert types, because the arguments have been validated against their schema.

func flag(args tool.Arguments, name string) bool {
	b, _ := args.Value()[name].(bool)
	return b
}

func integer(args tool.Arguments, name string, otherwise int) int {
	n, ok := args.Value()[name].(json.Number)
	if !ok {
		return otherwise
	}
	f, err := n.Float64() // JSON Schema accepts numbers such as 1.0 and 1e1 as integers.
	if err != nil || f != math.Trunc(f) {
		return otherwise
	}
	return int(max(math.MinInt32, min(f, math.MaxInt32)))
}

func text(args tool.Arguments, name, otherwise string) string {
	if s := args.String(name); s != "" {
		return s
	}
	return otherwise
}

// encode returns v as JSON. It does not escape <, > and &, which is needed only in HTML and would make source code longer.
func encode(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("files: result has no JSON form: " + err.Error())
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// encodedLength returns the length of s inside a JSON text.
func encodedLength(s string) int {
	n := len(s)
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t' || r == '\r' || r == '"' || r == '\\' || r == '\b' || r == '\f':
			n++
		case r < ' ':
			n += 5
		case r == '\u2028' || r == '\u2029':
			n += 3
		case r == '\ufffd':
			n += 5 // An invalid byte may be encoded as \ufffd, which has 5 more bytes.
		}
	}
	return n
}

func success(data any, message string) *tool.Result {
	return &tool.Result{Status: tool.StatusSuccess, Data: encode(data), Message: message}
}
