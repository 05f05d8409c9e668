package show

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Message writes m as JSON with the names of the .proto files, on one line or, when it is indented, on many. Strings that
// hold JSON stay strings, so that no number changes. The same message gives the same bytes.
func Message(m proto.Message, indented bool) (string, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer // protojson puts its white space where it likes
	if indented {
		err = json.Indent(&b, raw, "", "  ")
	} else {
		err = json.Compact(&b, raw)
	}
	return JSON(b.String()) + "\n", err
}

// compact is raw without white space.
func compact(raw []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
