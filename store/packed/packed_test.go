package packed_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/packed"
	"github.com/toold-dev/toold/tool"
)

var update = flag.Bool("update", false, "write the golden files anew")

// What is not stored comes back empty, and an empty list is as good as none.
var same = cmp.Options{cmpopts.IgnoreFields(call.Output{}, "Bytes"), cmpopts.IgnoreFields(tool.Result{}, "Documents"), cmpopts.EquateEmpty()}

// fill puts something into everything that v holds, or leaves it empty now and then.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(r.Int64N(4e9)-1e9, r.Int64N(1e9)).UTC()))
		return
	}
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`{"a":[1.0,2]}`))
		return
	}
	if depth > 0 && r.IntN(4) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(300)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64() >> r.IntN(64) * int64(1-2*r.IntN(2)))
	case reflect.Float64:
		v.SetFloat(r.NormFloat64())
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			fill(r, v.Index(i), depth+1)
		}
	case reflect.Uint8:
		v.SetUint(r.Uint64N(256))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(4) {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(r, k, depth+1)
			fill(r, e, depth+1)
			v.SetMapIndex(k, e)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i), depth+1)
		}
	}
}

func randomCall(r *rand.Rand) *call.Call {
	var c call.Call
	fill(r, reflect.ValueOf(&c).Elem(), 0)
	return &c
}

func randomEvents(r *rand.Rand) []call.Event {
	events := make([]call.Event, r.IntN(5))
	for i := range events {
		fill(r, reflect.ValueOf(&events[i]).Elem(), 0)
	}
	return events
}

// What comes out is what went in, and what JSON would have kept.
func TestRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		c := randomCall(r)
		b := packed.EncodeCall(c)
		got, err := packed.DecodeCall(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, got, same); diff != "" {
			t.Fatalf("call (-want +got):\n%s", diff)
		}
		if !bytes.Equal(b, packed.EncodeCall(c)) {
			t.Fatal("the same call has other bytes")
		}
		old, err := call.EncodeCall(c)
		if err != nil {
			t.Fatal(err)
		}
		fromJSON, err := packed.DecodeCall(old)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fromJSON, got, same); diff != "" {
			t.Fatalf("JSON keeps something else (-json +packed):\n%s", diff)
		}
		events := randomEvents(r)
		again, err := packed.DecodeEvents(packed.EncodeEvents(events))
		if diff := cmp.Diff(events, again, same); diff != "" || err != nil {
			t.Fatalf("events, %v (-want +got):\n%s", err, diff)
		}
	}
}

// Digests are taken over these bytes: they must come back as they are, whatever they are.
func TestVerbatim(t *testing.T) {
	odd := "{ \"html\" : \"<b>&\u2028\",\n \"n\": 1e0, \"bad\": \"\xff\" }"
	zero := time.Duration(0)
	c := &call.Call{Requested: odd, Effective: odd, Linger: &zero, Created: time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.FixedZone("x", 3600)),
		Rounds: []call.Round{{Suspension: call.Suspension{Parameters: json.RawMessage(odd), ResponseSchema: json.RawMessage(odd)}}}}
	got, err := packed.DecodeCall(packed.EncodeCall(c))
	if err != nil {
		t.Fatal(err)
	}
	s := got.Rounds[0].Suspension
	for name, text := range map[string]string{"requested": got.Requested, "effective": got.Effective, "parameters": string(s.Parameters), "schema": string(s.ResponseSchema)} {
		if text != odd {
			t.Errorf("%s came back as %q", name, text)
		}
	}
	if got.Linger == nil || *got.Linger != 0 {
		t.Errorf("linger of 0 came back as %v", got.Linger)
	}
	if !got.Created.Equal(c.Created) || got.Created.Location() != time.UTC {
		t.Errorf("created came back as %v", got.Created)
	}
	before := got.Created
	if got, err = packed.DecodeCall(packed.EncodeCall(&call.Call{})); err != nil || !got.Created.IsZero() || before.IsZero() {
		t.Errorf("empty call came back as %+v, %v", got, err)
	}
}

// The golden file was written by the first release; what it says must be read for ever.
func TestGolden(t *testing.T) {
	at := time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC)
	want := &call.Call{Namespace: "ns", ID: "0198c0de-call", Tool: "edit_file", Run: tool.Run{ID: "run", Thread: "thread", Labels: map[string]string{"b": "2", "a": "1"}},
		Caller: tool.Principal{Subject: "ann", Roles: []string{"caller"}}, Requested: `{"n": 1e0}`, Effective: `{"n":1e0}`, Class: call.Sync, Status: call.Suspended,
		Executed: call.NotStarted, Assessment: tool.Effects{Mutability: tool.Mutating, OpenWorld: true}, Checkpoint: []byte{0, 255},
		Rounds:   []call.Round{{Suspension: call.Suspension{ID: "s1", Round: 1, Action: "approval", Parameters: json.RawMessage(`{"a": "<"}`), Approvers: &tool.Approvers{Count: 2}, Created: at, ExpiresAt: at.Add(time.Hour)}}},
		Attempts: []call.Attempt{{Number: 1, Epoch: 3, Started: at}}, Created: at, Revision: 4, LastSequence: 7, Epochs: []call.EpochStart{{Epoch: 3, First: 1}}}
	path := filepath.Join("testdata", "call-v2.bin")
	if *update {
		if err := os.WriteFile(path, packed.EncodeCall(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := packed.DecodeCall(b)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestBroken(t *testing.T) {
	c := randomCall(rand.New(rand.NewPCG(3, 4)))
	b := packed.EncodeCall(c)
	for n := range len(b) {
		if _, err := packed.DecodeCall(b[:n]); !errors.Is(err, call.ErrStoredForm) {
			t.Fatalf("%d of %d bytes: %v, want ErrStoredForm", n, len(b), err)
		}
	}
	for name, b := range map[string][]byte{"version": {9, 0}, "more after the end": append(bytes.Clone(b), 0), "length": {2, 0xc3, 'r', 'u', 'n', 0xff, 0xff, 0xff, 0xff}} {
		if _, err := packed.DecodeCall(b); !errors.Is(err, call.ErrStoredForm) {
			t.Errorf("%s: %v, want ErrStoredForm", name, err)
		}
	}
	if _, err := packed.DecodeEvents([]byte{2, 0xff, 0xff, 0xff, 0x7f}); !errors.Is(err, call.ErrStoredForm) {
		t.Errorf("count beyond the end: %v, want ErrStoredForm", err)
	}
}

func FuzzDecode(f *testing.F) {
	// small seeds: the fuzzer takes a minute to shorten a long one
	f.Add(packed.EncodeCall(&call.Call{ID: "a", Run: tool.Run{Labels: map[string]string{"k": "v"}}, Rounds: []call.Round{{}}, Attempts: []call.Attempt{{Number: 1}}, Revision: -1}))
	f.Add(packed.EncodeEvents([]call.Event{{Sequence: 1, Progress: &tool.Progress{Fraction: 0.5}}, {Time: time.Unix(1, 2)}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := packed.DecodeCall(b); err == nil {
			again, err := packed.DecodeCall(packed.EncodeCall(c))
			if diff := cmp.Diff(c, again, same, cmpopts.EquateNaNs()); diff != "" || err != nil {
				t.Errorf("%v:\n%s", err, diff)
			}
		}
		if events, err := packed.DecodeEvents(b); err == nil {
			packed.EncodeEvents(events)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	c := randomCall(rand.New(rand.NewPCG(7, 8)))
	old, err := call.EncodeCall(c)
	if err != nil {
		b.Fatal(err)
	}
	for name, form := range map[string][]byte{"packed": packed.EncodeCall(c), "json": old} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(form)))
			for b.Loop() {
				if _, err := packed.DecodeCall(form); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	c := randomCall(rand.New(rand.NewPCG(7, 8)))
	b.Run("packed", func(b *testing.B) {
		for b.Loop() {
			packed.EncodeCall(c)
		}
	})
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			if _, err := call.EncodeCall(c); err != nil {
				b.Fatal(err)
			}
		}
	})
}
