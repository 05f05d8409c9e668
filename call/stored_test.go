package call_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// fatal has the methods that ordinary tests and property tests share.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// stored encodes and decodes a record and returns the result.
func stored[T any](t fatal, v T, encode func(T) ([]byte, error), decode func([]byte) (T, error)) T {
	t.Helper()
	b, err := encode(v)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	got, err := decode(b)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return got
}

func checkCall(t fatal, c *call.Call) {
	t.Helper()
	if diff := cmp.Diff(c, stored(t, c, call.EncodeCall, call.DecodeCall)); diff != "" {
		t.Fatalf("what was stored comes back changed (-want +got); is a field missing in call/stored_*.go?\n%s", diff)
	}
}

func checkEvents(t fatal, events []call.Event) {
	t.Helper()
	if diff := cmp.Diff(events, stored(t, events, call.EncodeEvents, call.DecodeEvents)); diff != "" {
		t.Fatalf("what was stored comes back changed (-want +got); is a field missing in call/stored_*.go?\n%s", diff)
	}
}

func TestStoredKeepsEveryField(t *testing.T) {
	checkCall(t, filled[call.Call](everyField()))
	f := everyField()
	checkEvents(t, []call.Event{*filled[call.Event](f), *filled[call.Event](f)})
	b := filled[call.Batch](everyField())
	b.Ended = 0 // stored in a column, not in the stored form
	if diff := cmp.Diff(b, stored(t, b, call.EncodeBatch, call.DecodeBatch)); diff != "" {
		t.Errorf("batch comes back changed (-want +got):\n%s", diff)
	}
}

func TestStoredKeepsAnyFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkCall(t, filled[call.Call](anyFields(t)))
		var events []call.Event
		for range rapid.IntRange(0, 3).Draw(t, "events") {
			events = append(events, *filled[call.Event](anyFields(t)))
		}
		checkEvents(t, events)
	})
}

// TestStoredKeepsOneField sets the fields one by one. It detects two fields with the same number, which would get each other's values.
func TestStoredKeepsOneField(t *testing.T) {
	var paths []string
	all := everyField()
	all.present = func(path string) bool {
		paths = append(paths, path)
		return true
	}
	filled[call.Call](all)
	filled[call.Event](all)
	for _, path := range paths {
		one := everyField()
		one.present = func(p string) bool {
			return path == p || strings.HasPrefix(path, p+".") || strings.HasPrefix(path, p+"[")
		}
		if strings.HasPrefix(path, "Call.") {
			checkCall(t, filled[call.Call](one))
		} else {
			checkEvents(t, []call.Event{*filled[call.Event](one)})
		}
	}
}

func TestStoredZero(t *testing.T) {
	checkCall(t, &call.Call{})
	checkEvents(t, nil)
	checkEvents(t, make([]call.Event, 3))
	checkCall(t, &call.Call{Linger: new(time.Duration), Result: &tool.Result{}, Cancel: &call.CancelRequest{}, Rounds: make([]call.Round, 2)})
	checkEvents(t, []call.Event{{Document: &call.DocumentNotice{Expected: new(int64)}, Outcome: &call.Outcome{}, Progress: &tool.Progress{}}})
	empty := &call.Call{Rewriters: []string{}, Checkpoint: []byte{}, Rounds: []call.Round{}, Run: tool.Run{Labels: map[string]string{}}}
	if diff := cmp.Diff(&call.Call{}, stored(t, empty, call.EncodeCall, call.DecodeCall)); diff != "" {
		t.Errorf("what is empty comes back as something else than nil:\n%s", diff)
	}
}

// TestStoredShort checks that zero fields take no bytes.
func TestStoredShort(t *testing.T) {
	if b, err := call.EncodeCall(&call.Call{}); err != nil || !bytes.Equal(b, []byte{1, 0}) {
		t.Errorf("an empty call is stored as %x, %v", b, err)
	}
	if b, err := call.EncodeEvents([]call.Event{{Sequence: 5}, {}}); err != nil || !bytes.Equal(b, []byte{1, 4, 2, 2, 10, 0}) {
		t.Errorf("two events are stored as %x, %v", b, err)
	}
}

// TestStoredLong tests the sizes at which a length needs one more byte.
func TestStoredLong(t *testing.T) {
	for _, n := range []int{1, 1 << 7, 1 << 14, 1 << 21} {
		for short := range 8 {
			data := strings.Repeat("d", max(0, n-short))
			checkCall(t, &call.Call{Requested: data, Result: &tool.Result{Data: data}, Revision: 1})
			checkEvents(t, []call.Event{{Sequence: 1, Outcome: &call.Outcome{Result: &tool.Result{Data: data}}}, {Sequence: 2}})
		}
	}
}

func TestStoredFractions(t *testing.T) {
	for _, want := range []float64{0.5, 1, 1.0 / 3, -2, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.SmallestNonzeroFloat64} {
		got := stored(t, []call.Event{{Progress: &tool.Progress{Fraction: want}}}, call.EncodeEvents, call.DecodeEvents)
		if got := got[0].Progress.Fraction; math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("%v comes back as %v", want, got)
		}
	}
}

// TestStoredMapsInOrder checks that equal records have equal bytes.
func TestStoredMapsInOrder(t *testing.T) {
	c := &call.Call{Run: tool.Run{Labels: map[string]string{}}}
	for i := range 50 {
		c.Run.Labels[strings.Repeat("a", i)] = "value"
	}
	first, err := call.EncodeCall(c)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if b, err := call.EncodeCall(c); err != nil || !bytes.Equal(b, first) {
			t.Fatalf("the same call is stored as other bytes (%v)", err)
		}
	}
}

func TestStoredLeavesOut(t *testing.T) {
	c := stored(t, &call.Call{Result: tool.Text("done").With(tool.Command{Op: tool.OpDelete, Key: "k"})}, call.EncodeCall, call.DecodeCall)
	if c.Result.Documents != nil {
		t.Errorf("documents are stored with a result: %v", c.Result.Documents)
	}
	events := stored(t, []call.Event{{Output: &call.Output{Stream: "stdout", Length: 3, Bytes: []byte("abc")}}}, call.EncodeEvents, call.DecodeEvents)
	if got := events[0].Output; got.Bytes != nil || got.Length != 3 {
		t.Errorf("output comes back as %+v, want its length and not its bytes", got)
	}
}

func TestStoredTimes(t *testing.T) {
	tests := []struct {
		name string
		time time.Time
		ok   bool
	}{
		{"zero", time.Time{}, true},
		{"1970", time.Unix(0, 0), true}, // differs from the zero time
		{"nanoseconds", time.Unix(1, 1), true},
		{"with a monotonic reading", time.Now(), true},
		{"of a zone", time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("", 7200)), true},
		{"1678", time.Date(1678, 1, 1, 0, 0, 0, 0, time.UTC), true},
		{"2261", time.Date(2261, 12, 31, 23, 59, 59, 999999999, time.UTC), true},
		{"1677", time.Date(1677, 1, 1, 0, 0, 0, 0, time.UTC), false},
		{"2263", time.Date(2263, 1, 1, 0, 0, 0, 0, time.UTC), false},
		{"year 1", time.Time{}.Add(1), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := call.EncodeEvents([]call.Event{{Time: tt.time}}); (err == nil) != tt.ok {
				t.Errorf("EncodeEvents: %v, want ok %t", err, tt.ok)
			}
			if _, err := call.EncodeCall(&call.Call{Created: tt.time}); (err == nil) != tt.ok {
				t.Fatalf("EncodeCall: %v, want ok %t", err, tt.ok)
			}
			if !tt.ok {
				return
			}
			got := stored(t, &call.Call{Created: tt.time}, call.EncodeCall, call.DecodeCall).Created
			if want := tt.time.Round(0).UTC(); got != want {
				t.Errorf("%#v comes back as %#v", want, got)
			}
		})
	}
}

// TestStoredOwnsItsMemory checks that a decoded record does not share the input, because a driver may reuse it.
func TestStoredOwnsItsMemory(t *testing.T) {
	want := filled[call.Call](everyField())
	b, err := call.EncodeCall(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := call.DecodeCall(b)
	if err != nil {
		t.Fatal(err)
	}
	clear(b)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the record changed with the bytes that it was read from:\n%s", diff)
	}
}

func TestDecodeEventsAfter(t *testing.T) {
	events := progressEvents(300)[200:] // sequences of two bytes
	b, err := call.EncodeEvents(events)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		after int64
		limit int
		want  []call.Event
	}{
		{"all", 0, 0, events},
		{"before the first", 200, 0, events},
		{"a page", 220, 30, events[20:50]},
		{"the last page", 280, 30, events[80:]},
		{"one", 299, 1, events[99:]},
		{"after the last", 300, 0, nil},
		{"after the last with a limit", math.MaxInt64, 5, nil},
		{"no limit", 250, -1, events[50:]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := call.DecodeEventsAfter(b, tt.after, tt.limit)
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
	for _, broken := range [][]byte{nil, {2, 0}, {1, 1, 5}, {1, 2, 1, 2<<1 | 1}, b[:len(b)-1]} {
		if got, err := call.DecodeEventsAfter(broken, -1, 0); !errors.Is(err, call.ErrStoredForm) || got != nil {
			t.Errorf("DecodeEventsAfter(%x) = %v, %v, want ErrStoredForm", broken, got, err)
		}
	}
	for _, after := range []int64{-1, 100} { // A damaged end is detected even when the events before it are skipped.
		if got, err := call.DecodeEventsAfter([]byte{1, 4, 2, 2, 10, 5}, after, 0); !errors.Is(err, call.ErrStoredForm) || got != nil {
			t.Errorf("after %d: %v, %v, want ErrStoredForm", after, got, err)
		}
	}
}

// TestStoredGolden fixes the stored form. Stored bytes must stay readable forever, and the same version must write the same bytes. A field
// that is added later is zero here and changes nothing.
func TestStoredGolden(t *testing.T) {
	golden(t, "call", call.EncodeCall, call.DecodeCall)
	golden(t, "events", call.EncodeEvents, call.DecodeEvents)
}

func golden[T any](t *testing.T, name string, encode func(T) ([]byte, error), decode func([]byte) (T, error)) {
	var v T
	if err := json.Unmarshal(readFile(t, "testdata/stored/"+name+".json"), &v); err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.Join(strings.Fields(string(readFile(t, "testdata/stored/"+name+".hex"))), ""))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := encode(v); err != nil || !bytes.Equal(b, want) {
		t.Errorf("%s is stored in another form than before: %v\nwant %x\ngot  %x", name, err, want, b)
	}
	got, err := decode(want)
	if diff := cmp.Diff(v, got); err != nil || diff != "" {
		t.Errorf("%s is read as something else than before: %v\n%s", name, err, diff)
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
