package call_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// framed returns the stored form with this body.
func framed(body []byte) []byte {
	return append(binary.AppendUvarint([]byte{1}, uint64(len(body))), body...)
}

// formsOf returns stored forms of a call and of events, with all fields and with few, and their bodies.
func formsOf(t testing.TB) (forms, bodies [][]byte) {
	t.Helper()
	short := everyField()
	short.text = func(string) string { return "x" } // with short texts, most bytes are structure
	for _, c := range []*call.Call{filled[call.Call](short), waitingCall(), {}} {
		b, err := call.EncodeCall(c)
		if err != nil {
			t.Fatal(err)
		}
		forms = append(forms, b)
	}
	for _, events := range [][]call.Event{{*filled[call.Event](short)}, threeEvents(), make([]call.Event, 2)} {
		b, err := call.EncodeEvents(events)
		if err != nil {
			t.Fatal(err)
		}
		forms = append(forms, b)
	}
	for _, b := range forms {
		_, size := binary.Uvarint(b[1:])
		bodies = append(bodies, b[1+size:])
	}
	return forms, bodies
}

// decodeBoth decodes b as a call and as events. An error must be ErrStoredForm, and a decoded record must encode and decode to itself.
func decodeBoth(t *testing.T, b []byte) (ok bool) {
	t.Helper()
	c, err := call.DecodeCall(b)
	okCall := again(t, b, c, err, call.EncodeCall, call.DecodeCall)
	events, err := call.DecodeEvents(b)
	okEvents := again(t, b, events, err, call.EncodeEvents, call.DecodeEvents)
	if some, err := call.DecodeEventsAfter(b, 1, 2); err != nil && !errors.Is(err, call.ErrStoredForm) || len(some) > 2 {
		t.Fatalf("DecodeEventsAfter(%x) = %d events, %v", b, len(some), err)
	}
	return okCall || okEvents
}

func again[T any](t *testing.T, b []byte, v T, err error, encode func(T) ([]byte, error), decode func([]byte) (T, error)) bool {
	t.Helper()
	if err != nil {
		if !errors.Is(err, call.ErrStoredForm) {
			t.Fatalf("decode %x: %v, want ErrStoredForm", b, err)
		}
		return false
	}
	form, err := encode(v)
	if err != nil {
		t.Fatalf("encode what %x is: %v", b, err)
	}
	twice, err := decode(form)
	if err != nil {
		t.Fatalf("decode what %x became: %v", b, err)
	}
	if last, err := encode(twice); err != nil || !bytes.Equal(form, last) {
		t.Fatalf("%x became %x and then %x: %v", b, form, last, err)
	}
	return true
}

func TestStoredVersion(t *testing.T) {
	forms, _ := formsOf(t)
	for version := range 256 {
		for _, b := range forms {
			b = slices.Clone(b)
			b[0] = byte(version)
			if ok := decodeBoth(t, b); ok != (version == 1) {
				t.Errorf("version %d: read %t", version, ok)
			}
		}
	}
}

func TestStoredCutOff(t *testing.T) {
	forms, bodies := formsOf(t)
	for _, b := range forms {
		for n := range b {
			if decodeBoth(t, b[:n]) {
				t.Errorf("%d of %d bytes are read as a record", n, len(b))
			}
		}
		if decodeBoth(t, append(slices.Clone(b), 0)) {
			t.Error("one byte too many is read as a record")
		}
	}
	for _, body := range bodies { // also with a correct length
		for n := range body {
			decodeBoth(t, framed(body[:n]))
		}
	}
}

func TestStoredChangedBytes(t *testing.T) {
	_, bodies := formsOf(t)
	for _, body := range bodies {
		b := framed(body)
		for i := range b {
			was := b[i]
			for _, is := range []byte{0, was ^ 1, was + 2, 0xff} {
				b[i] = is
				decodeBoth(t, b)
			}
			b[i] = was
		}
	}
}

func TestStoredFields(t *testing.T) {
	varint := func(number, value uint64) []byte {
		return binary.AppendUvarint(binary.AppendUvarint(nil, number<<1), value)
	}
	text := func(number uint64, value string) []byte {
		return append(binary.AppendUvarint(binary.AppendUvarint(nil, number<<1|1), uint64(len(value))), value...)
	}
	tests := []struct {
		name string
		body [][]byte
		want *call.Call // nil when it must be refused
	}{
		{"nothing", nil, &call.Call{}},
		{"known", [][]byte{text(2, "id"), varint(34, 8)}, &call.Call{ID: "id", Revision: 4}},
		{"unknown text", [][]byte{text(2, "id"), text(63, "new")}, nil},
		{"unknown varint", [][]byte{text(2, "id"), varint(63, 1)}, nil},
		{"number 0", [][]byte{varint(0, 0)}, nil},
		{"skippable", [][]byte{text(2, "id"), text(64, "new"), varint(65, 1<<40), text(1<<40, "")}, &call.Call{ID: "id"}},
		{"skippable inside", [][]byte{text(7, string(slices.Concat(text(1, "run"), text(64, "new")))), varint(34, 8)}, &call.Call{Run: tool.Run{ID: "run"}, Revision: 4}},
		{"unknown inside", [][]byte{text(7, string(text(63, "new")))}, nil},
		{"skippable beyond the end", [][]byte{text(2, "id"), {64<<1&0x7f | 1 | 0x80, 1, 2, 'x'}}, nil},
		{"skippable without a value", [][]byte{{64<<1&0x7f | 0x80, 1}}, nil},
		{"wrong order", [][]byte{text(3, "model"), text(2, "id")}, nil},
		{"twice", [][]byte{text(2, "id"), text(2, "id")}, nil},
		{"text as a varint", [][]byte{varint(2, 1)}, nil},
		{"varint as text", [][]byte{text(34, "1")}, nil},
		{"a key and no value", [][]byte{{2<<1 | 1}}, nil},
		{"a value beyond the end", [][]byte{{2<<1 | 1, 5, 'i', 'd'}}, nil},
		{"a part beyond its end", [][]byte{text(7, "\x03\x05ab"), text(9, "behalf")}, nil},
		{"a list beyond its end", [][]byte{text(16, "\x03ab"), text(17, "SYNC")}, nil},
		{"a varint of 11 bytes", [][]byte{{34 << 1}, bytes.Repeat([]byte{0x80}, 10), {1}}, nil},
		{"a key of 10 bytes", [][]byte{bytes.Repeat([]byte{0xff}, 9), {1}}, nil}, // Internally, a key of all ones marks the end of a record.
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := call.DecodeCall(framed(slices.Concat(tt.body...)))
			if tt.want == nil && !errors.Is(err, call.ErrStoredForm) {
				t.Fatalf("got %+v, %v, want ErrStoredForm", got, err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
}

// TestStoredBelievesNoLength checks that a length beyond the input allocates no memory.
func TestStoredBelievesNoLength(t *testing.T) {
	for _, length := range []uint64{1 << 30, 1<<62 - 1, 1<<63 - 1, 1 << 63, 1<<64 - 12, 1<<64 - 1} {
		huge := string(binary.AppendUvarint(nil, length))
		inner := func(key string) string { return key + string(rune(len(huge)+1)) + huge + "x" }
		for _, body := range []string{
			"\x03" + huge + "\xff", // length of a text
			"\x2f" + huge + "\xff", // length of a list of records
			inner("\x2f"),          // length of a record in a list
			inner("\x21"),          // length of a text in a list
			"\x0f" + string(rune(len(huge)+3)) + inner("\x13"), // length of a map inside a record
			"\x81\x01" + huge,           // length of a skipped field
			"\x03\x01a" + inner("\x2f"), // a wrong length after a valid field
			huge + "\xff",               // length of events
		} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			ok := decodeBoth(t, framed([]byte(body)))
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; ok || got > 64<<10 {
				t.Errorf("%x: read %t, with %d bytes of memory", body, ok, got)
			}
		}
	}
	if _, err := call.DecodeCall(append([]byte{1}, bytes.Repeat([]byte{0xff}, 9)...)); !errors.Is(err, call.ErrStoredForm) {
		t.Errorf("a length that does not end: %v", err)
	}
}

// TestStoredErrors checks that an error names the position in the bytes.
func TestStoredErrors(t *testing.T) {
	tests := []struct{ form, want string }{
		{"", "stored form not understood: want version 1"},
		{"\x02\x00", "stored form not understood: want version 1"},
		{"\x01\x01", "stored form not understood: its length differs from the stored length"},
		{"\x01\x03\x0f\x01\x7e", "stored form not understood: unexpected field 63 at byte 3 of 3"},
		{"\x01\x05\x0f\x02\x03\x05x", "stored form not understood: length beyond the end at byte 4 of 5"},
	}
	for _, tt := range tests {
		if _, err := call.DecodeCall([]byte(tt.form)); err == nil || err.Error() != tt.want {
			t.Errorf("%x: %v, want %s", tt.form, err, tt.want)
		}
	}
}

// FuzzStored checks that the decoders never panic and that decoded records can be stored.
func FuzzStored(f *testing.F) {
	forms, bodies := formsOf(f)
	for i := range forms {
		f.Add(forms[i], true)
		f.Add(bodies[i], false)
	}
	f.Fuzz(func(t *testing.T, b []byte, whole bool) {
		if !whole {
			b = framed(b)
		}
		decodeBoth(t, b)
	})
}
