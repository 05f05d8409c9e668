package main

import (
	"errors"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func accepted(sequence int64) *tooldv1.CallEvent {
	return &tooldv1.CallEvent{CallId: "call", Sequence: sequence, Event: &tooldv1.CallEvent_Accepted{Accepted: &tooldv1.CallAccepted{Tool: "bash"}}}
}

func output(sequence, offset int64, data string) *tooldv1.CallEvent {
	return &tooldv1.CallEvent{CallId: "call", Sequence: sequence, Event: &tooldv1.CallEvent_Output{
		Output: &tooldv1.Output{Stream: "stdout", Offset: offset, Data: []byte(data), Length: int64(len(data))},
	}}
}

func stored(sequence, offset, length int64) *tooldv1.CallEvent {
	e := output(sequence, offset, "")
	e.GetOutput().Length = length
	return e
}

func finished(sequence int64) *tooldv1.CallEvent {
	return &tooldv1.CallEvent{CallId: "call", Sequence: sequence, Event: &tooldv1.CallEvent_Finished{Finished: &tooldv1.CallFinished{
		Status: tooldv1.CallStatus_CALL_STATUS_SUCCEEDED,
	}}}
}

// spool fakes ReadArtifact for the bytes of the call's only stream.
func spool(bytes string) func(string, int64, int64) ([]byte, error) {
	return func(_ string, offset, length int64) ([]byte, error) {
		if offset+length > int64(len(bytes)) {
			return nil, errors.New("beyond the end")
		}
		return []byte(bytes)[offset : offset+length], nil
	}
}

func events(all ...*tooldv1.CallEvent) *tooldv1.Frame { return &tooldv1.Frame{Events: all} }

func TestTapeRefusesALogThatIsNotWhole(t *testing.T) {
	foreign := accepted(2)
	foreign.CallId = "another"
	wrongLength := output(2, 0, "abc")
	wrongLength.GetOutput().Length = 4
	tests := []struct {
		name   string
		frames []*tooldv1.Frame
		ok     bool
	}{
		{"one frame", []*tooldv1.Frame{events(accepted(1), output(2, 0, "abc"), output(3, 3, "def"), finished(4))}, true},
		{"frames", []*tooldv1.Frame{events(accepted(1)), events(output(2, 0, "abc")), events(stored(3, 3, 3), finished(4))}, true},
		{"begins late", []*tooldv1.Frame{events(output(2, 0, "abc"))}, false},
		{"event missing", []*tooldv1.Frame{events(accepted(1)), events(output(3, 0, "abc"))}, false},
		{"event repeated", []*tooldv1.Frame{events(accepted(1), output(2, 0, "abc")), events(output(2, 0, "abc"))}, false},
		{"bytes missing", []*tooldv1.Frame{events(accepted(1), output(2, 0, "abc"), output(3, 4, "ef"))}, false},
		{"bytes repeated", []*tooldv1.Frame{events(accepted(1), output(2, 0, "abc"), output(3, 2, "cdef"))}, false},
		{"fewer bytes than said", []*tooldv1.Frame{events(accepted(1), wrongLength)}, false},
		{"stored bytes gone", []*tooldv1.Frame{events(accepted(1), stored(2, 0, 7))}, false},
		{"another call", []*tooldv1.Frame{events(accepted(1), foreign)}, false},
		{"after the end", []*tooldv1.Frame{events(accepted(1), finished(2)), events(output(3, 0, "abc"))}, false},
		{"gap", []*tooldv1.Frame{events(accepted(1)), {Control: &tooldv1.Frame_Gap{Gap: &tooldv1.Gap{FirstKept: 3}}}}, false},
		{"snapshot", []*tooldv1.Frame{events(accepted(1)), {Control: &tooldv1.Frame_Snapshot{Snapshot: &tooldv1.Call{}}}}, false},
		{"heartbeat", []*tooldv1.Frame{events(accepted(1)), {Control: &tooldv1.Frame_Heartbeat{}}, events(finished(2))}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tape := newTape("call", spool("abcdef"))
			var err error
			for _, f := range tt.frames {
				if err = tape.take(f); err != nil {
					break
				}
			}
			if (err == nil) != tt.ok {
				t.Errorf("take: %v, want ok %t", err, tt.ok)
			}
		})
	}
}

func TestTapeComparesEverything(t *testing.T) {
	record := func(frame *tooldv1.Frame, bytes string) *tape {
		tape := newTape("call", spool(bytes))
		if err := tape.take(frame); err != nil {
			t.Fatal(err)
		}
		return tape
	}
	whole := record(events(accepted(1), output(2, 0, "abc"), finished(3)), "")
	failed := finished(3)
	failed.GetFinished().Status = tooldv1.CallStatus_CALL_STATUS_FAILED
	tests := []struct {
		name  string
		other *tape
		ok    bool
	}{
		{"live and stored", record(events(accepted(1), stored(2, 0, 3), finished(3)), "abc"), true},
		{"other bytes", record(events(accepted(1), stored(2, 0, 3), finished(3)), "abd"), false},
		{"other cut", record(events(accepted(1), output(2, 0, "ab"), output(3, 2, "c"), finished(4)), ""), false},
		{"other end", record(events(accepted(1), output(2, 0, "abc"), failed), ""), false},
		{"no end", record(events(accepted(1), output(2, 0, "abc")), ""), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := whole.same(tt.other); (err == nil) != tt.ok {
				t.Errorf("same: %v, want ok %t", err, tt.ok)
			}
			if err := tt.other.same(whole); (err == nil) != tt.ok {
				t.Errorf("the other way round: %v, want ok %t", err, tt.ok)
			}
		})
	}
}
