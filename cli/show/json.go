package show

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Message formats m as JSON with the field names of the .proto files, on one line or indented. Strings that contain JSON stay strings, so
// that no number changes. The output is deterministic.
func Message(m proto.Message, indented bool) (string, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer // protojson adds random white space
	if indented {
		err = json.Indent(&b, raw, "", "  ")
	} else {
		err = json.Compact(&b, raw)
	}
	return JSON(b.String()) + "\n", err
}

// compact removes the white space from raw.
func compact(raw []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
