package translate

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/call"
)

// The limits of fields in bytes, and of lists in entries. The engine checks ids and arguments of calls.
const (
	MaxRunID     = 128
	MaxCallID    = 64
	maxLabel     = 256
	maxLabels    = 64
	maxAgentSpec = 64 << 10
	maxGlobs     = 256
	maxGlob      = 128
	MaxReason    = 1 << 10
	MaxFilter    = 256

	maxModelReason = 4 << 10
)

// Required refuses an empty field.
func Required(field, value string) error {
	if value == "" {
		return call.InvalidField(field, "is required")
	}
	return nil
}

// Short refuses a field that is too long.
func Short(field, value string, most int) error {
	if len(value) > most {
		return call.InvalidField(field, "has %d bytes; at most %d are accepted", len(value), most)
	}
	return nil
}

// A bound is a field and its maximum size in bytes.
type bound struct {
	field, value string
	most         int
}

// checkBounds refuses the first field that is too long.
func checkBounds(bounds ...bound) error {
	for i := range bounds {
		if b := &bounds[i]; len(b.value) > b.most {
			return Short(b.field, b.value, b.most)
		}
	}
	return nil
}

// Few refuses a list with too many entries.
func Few(field string, n, most int) error {
	if n > most {
		return call.InvalidField(field, "has %d entries; at most %d are accepted", n, most)
	}
	return nil
}

// Labels refuses labels that are too many or too long for a run.
func Labels(field string, labels map[string]string) error {
	if err := Few(field, len(labels), maxLabels); err != nil {
		return err
	}
	for key, value := range labels {
		if len(key) > maxLabel {
			return call.InvalidField(field, "has a key of %d bytes; at most %d are accepted", len(key), maxLabel)
		}
		if err := Short(field+"["+key+"]", value, maxLabel); err != nil {
			return err
		}
	}
	return nil
}

// ToTimes translates the bounds of a time range, and refuses an empty range. An absent bound becomes the zero time.
func ToTimes(afterField string, after *timestamppb.Timestamp, beforeField string, before *timestamppb.Timestamp) (from, until time.Time, err error) {
	if from, err = ToTime(afterField, after); err != nil {
		return from, until, err
	}
	if until, err = ToTime(beforeField, before); err != nil {
		return from, until, err
	}
	if !from.IsZero() && !until.IsZero() && !from.Before(until) {
		err = call.InvalidField(beforeField, "is not later than %s, so nothing can match", afterField)
	}
	return from, until, err
}

// UnknownEnum refuses an enum value that this version of the API does not have.
func UnknownEnum(field string, value int32) error {
	return call.InvalidField(field, "has the value %d, which this daemon does not know", value)
}

// ToTime translates a time; absent is zero.
func ToTime(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if err := t.CheckValid(); err != nil {
		return time.Time{}, call.InvalidField(field, "is not a time between the years 1 and 9999")
	}
	return t.AsTime(), nil
}
