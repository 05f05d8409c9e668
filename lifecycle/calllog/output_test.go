package calllog_test

import (
	"errors"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/store/memory"
)

type unlimited struct{}

func (unlimited) Full(string) bool  { return false }
func (unlimited) Add(string, int64) {}
func (unlimited) Max() int64        { return 0 }

// TestKeepReportsTheLimit checks that Keep returns the first limit that the call reached, even when an earlier event failed for a different
// reason.
func TestKeepReportsTheLimit(t *testing.T) {
	full := false
	o := calllog.Output{Key: call.Key{Namespace: "n", ID: "c"}, Config: &calllog.OutputConfig{
		Spool: memory.New(memory.Config{}).Spool(), Quota: 10, Full: func() bool { return full }, Namespaces: unlimited{},
	}}
	c := &call.Call{}
	output := func(text string) call.Event {
		return call.Event{Type: call.EventOutput, Output: &call.Output{Stream: "stdout", Bytes: []byte(text)}}
	}
	if kept, err := o.Keep([]call.Event{output("12345"), output("678901"), output("2")}, c); len(kept) != 2 || !isLimit(err, "OUTPUT_QUOTA") {
		t.Errorf("%d events, %v", len(kept), err)
	}
	full = true
	if kept, err := o.Keep([]call.Event{output("3"), output("456789")}, c); len(kept) != 0 || !isLimit(err, "STORAGE_FULL") {
		t.Errorf("%d events, %v", len(kept), err)
	}
}

func isLimit(err error, reason string) bool {
	e, is := errors.AsType[*calllog.ExhaustedError](err)
	return is && e.Err.Reason == reason
}
