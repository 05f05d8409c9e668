package call

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The stored form of calls and events is one version byte and JSON. A reader knows every version that was ever
// released; the versions below are the first.
const (
	callVersion  = 1
	eventVersion = 1
)

// ErrStoredForm means that stored bytes are of a version that this build does not know, or are not what they should be.
var ErrStoredForm = errors.New("stored form not understood")

// EncodeCall returns the stored form of a call.
func EncodeCall(c *Call) ([]byte, error) { return encode(callVersion, c) }

// DecodeCall reads what EncodeCall wrote.
func DecodeCall(b []byte) (*Call, error) {
	var c Call
	if err := decode(callVersion, b, &c); err != nil {
		return nil, err
	}
	return &c, nil
}

// EncodeEvents returns the stored form of consecutive events of one call.
func EncodeEvents(events []Event) ([]byte, error) { return encode(eventVersion, events) }

// DecodeEvents reads what EncodeEvents wrote.
func DecodeEvents(b []byte) ([]Event, error) {
	var events []Event
	if err := decode(eventVersion, b, &events); err != nil {
		return nil, err
	}
	return events, nil
}

func encode(version byte, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append([]byte{version}, b...), nil
}

func decode(version byte, b []byte, into any) error {
	if len(b) == 0 || b[0] != version {
		return fmt.Errorf("%w: want version %d", ErrStoredForm, version)
	}
	if err := json.Unmarshal(b[1:], into); err != nil {
		return fmt.Errorf("%w: %w", ErrStoredForm, err)
	}
	return nil
}
