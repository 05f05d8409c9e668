package jsonform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/call"
)

// A Form writes and reads messages as JSON. It implements [connect.Codec]. The zero value is not valid.
type Form struct {
	name     string
	readable bool
}

// Parameter is the name of the parameter, in the media type and in the query, that selects the form of responses. Its only value is
// "readable".
const Parameter = "form"

const readable = "; " + Parameter + "=readable"

// Plain returns the form in which responses are protobuf's JSON mapping.
func Plain() Form { return Form{name: "json"} }

// Readable returns the form in which responses have JSON values instead of JSON text.
func Readable() Form { return Form{"json" + readable, true} }

// All returns all forms, each of them twice: without and with a charset, because the media type of a request may name one.
func All() []Form {
	const charset = "json; charset=utf-8"
	return []Form{Plain(), Readable(), {name: charset}, {charset + readable, true}}
}

// Name implements [connect.Codec]. The media type ends with the name.
func (f Form) Name() string { return f.name }

// MediaType returns the media type of the form, for a media type without parameters that ends in "json".
func (f Form) MediaType(base string) string { return base + strings.TrimPrefix(f.name, "json") }

// Marshal implements [connect.Codec].
func (f Form) Marshal(m any) ([]byte, error) { return f.MarshalAppend(nil, m) }

// MarshalAppend appends a message to dst. The JSON has no line breaks.
func (f Form) MarshalAppend(dst []byte, m any) ([]byte, error) {
	message, ok := m.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a protobuf message", m)
	}
	if !f.readable {
		return appendPlain(dst, message)
	}
	text, err := appendPlain(nil, message)
	if err != nil {
		return nil, err
	}
	w := rewriter{in: text, out: dst, convert: appendValue}
	w.message(message.ProtoReflect().Descriptor())
	return w.out, nil
}

// Unmarshal implements [connect.Codec]. It ignores unknown fields, like the codec of Connect.
func (f Form) Unmarshal(text []byte, m any) error {
	message, ok := m.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a protobuf message", m)
	}
	if len(text) == 0 {
		return errors.New("the body is empty; want a JSON object, such as {}")
	}
	if readUsual(text, message) {
		return nil
	}
	options := protojson.UnmarshalOptions{DiscardUnknown: true}
	err := options.Unmarshal(text, message) // A request of a generated client has JSON text only in strings, so it needs no conversion.
	if err == nil {
		return nil
	}
	if syntax := json.Unmarshal(text, &json.RawMessage{}); syntax != nil {
		return fmt.Errorf("the request is not valid JSON: %w", syntax)
	}
	w := rewriter{in: text, out: make([]byte, 0, len(text)+len(text)/8), convert: appendText}
	w.message(message.ProtoReflect().Descriptor())
	return explain(options.Unmarshal(w.out, message))
}

// explain removes the prefix of protojson's errors. In this prefix, a space changes from build to build.
func explain(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: "))
}

// appendText appends a JSON string that contains the JSON text v. If v is a string or null, it appends v unchanged.
func appendText(dst, v []byte) []byte {
	if v[0] == '"' || v[0] == 'n' {
		return append(dst, v...)
	}
	return appendString(dst, v)
}

// appendValue appends the JSON value that the JSON string v contains as text. It appends v unchanged in two cases: the text is not an
// object, an array, a number or a boolean; or strict JSON parsers refuse the text.
func appendValue(dst, v []byte) []byte {
	var text string
	if v[0] != '"' || json.Unmarshal(v, &text) != nil {
		return append(dst, v...)
	}
	if text = strings.TrimLeft(text, " \n\t\r"); text == "" || strings.IndexByte("{[-0123456789tf", text[0]) < 0 {
		return append(dst, v...)
	}
	if _, err := call.ParseJSON(text, len(text)); err != nil {
		return append(dst, v...)
	}
	value := bytes.NewBuffer(dst)
	if json.Compact(value, []byte(text)) != nil {
		return append(dst, v...)
	}
	return value.Bytes()
}
