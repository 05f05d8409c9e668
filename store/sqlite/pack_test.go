package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// packedCall creates a call that goes into a pack.
func packedCall(id string) *store.Change {
	c := newCall(id)
	c.Class, c.Status, c.LastSequence, c.Requested = call.Behind, call.Succeeded, 2, fmt.Sprintf("%q", strings.Repeat(id, 3))
	c.Run, c.Result = tool.Run{ID: "run", Thread: "thread"}, &tool.Result{Status: tool.StatusSuccess, Data: id}
	return &store.Change{Call: c, Create: true, Events: []call.Event{{Sequence: 1}, {Sequence: 2}}, Durability: store.Normal}
}

// newPack lets a store write a pack of five calls with these records, and returns the pack.
func newPack(t testing.TB, s *Store, records ...store.Record) (p pack) {
	t.Helper()
	return newPackOf(t, s, packedCall, records...)
}

// TestBackupCountsPackedCalls checks that a backup, and a store restored from it, count the calls in packs like other calls.
func TestBackupCountsPackedCalls(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	newPack(t, s)
	saved, restored := filepath.Join(t.TempDir(), "saved"), filepath.Join(t.TempDir(), "restored")
	copied, err := s.Backup(t.Context(), saved)
	if err != nil || copied.Calls != 6 {
		t.Errorf("the backup has %+v, %v, want 6 calls", copied, err)
	}
	copied, err = Restore(t.Context(), saved, restored)
	if err != nil || copied.Calls != 6 {
		t.Errorf("the restored store has %+v, %v, want 6 calls", copied, err)
	}
}

func newPackOf(t testing.TB, s *Store, created func(id string) *store.Change, records ...store.Record) (p pack) {
	t.Helper()
	errs := make(chan error, 6)
	committed, wait := make(chan struct{}), make(chan struct{})
	s.Submit(creation(newCall("first"), store.Normal), func(err error) {
		errs <- err
		close(committed)
		<-wait
	})
	<-committed
	for i := range 5 {
		c := created(fmt.Sprint("call-", i))
		c.Records = records
		s.Submit(c, func(err error) { errs <- err })
	}
	close(wait)
	for range 6 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	err := s.read(t.Context(), func(conn *sqlite.Conn) error {
		return query(conn, selectPacks+"TRUE", func(st *sqlite.Stmt) error { p.read(st); return nil })
	})
	if err != nil || p.last != p.position+4 {
		t.Fatalf("a pack from %d to %d, %v", p.position, p.last, err)
	}
	return p
}

// TestPackFlippedBits (P9) flips the bits of a pack, one at a time. A read must return the written data or an error. At most the damaged
// call and the next one may be refused.
func TestPackFlippedBits(t *testing.T) {
	testFlippedBits(t, packedCall)
}

func testFlippedBits(t *testing.T, created func(id string) *store.Change) {
	s, err := Open(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := newPackOf(t, s, created)
	published := len(created("call").Events)
	every := 7 // One bit of each byte. The nightly run flips all bits.
	if os.Getenv("TOOLD_NIGHTLY") != "" {
		every = 1
	}
	for bit := 0; bit < 8*len(p.members); bit += every {
		p.members[bit/8] ^= 1 << (bit % 8)
		refused := 0
		for i := range int64(5) {
			m := p.member(p.position + i)
			r := m.row()
			if want := packedCall(fmt.Sprint("call-", i)).Call; r.Err == nil && (r.Key != want.Key() || r.Call.Requested != want.Requested) {
				t.Fatalf("bit %d: read %+v", bit, r.Call)
			}
			c := m.chunk()
			if events, err := c.Decode(0, 10); err == nil && len(events) != published {
				t.Fatalf("bit %d: read %+v", bit, events)
			} else if r.Err != nil || err != nil {
				refused++
			}
		}
		if refused == 0 || refused > 2 || refused == 2 && bit >= 8*4*5 {
			t.Fatalf("bit %d: %d are refused", bit, refused)
		}
		p.members[bit/8] ^= 1 << (bit % 8)
	}
}

// TestBrokenMember reads a pack with one broken call in every way. Each read must name the broken call and still return the other calls.
func TestBrokenMember(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(p *pack)
	}{
		{"record", func(p *pack) { p.members[strings.Index(string(p.members), "call-2call-2")] ^= 1 }},
		{"end", func(p *pack) { copy(p.members[4*2:], "\xff\xff\xff\xff") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Open(t.Context(), Config{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			p := newPack(t, s)
			tt.spoil(&p)
			if err := s.write(func(w *writer) error {
				return exec(w.conn, "UPDATE packs SET members = ? WHERE position = ?", p.members, p.position) // The members are uncompressed, as in old packs.
			}); err != nil {
				t.Fatal(err)
			}
			broken := []call.Key{{Namespace: "ns", ID: "call-2"}}
			if tt.name == "end" { // The next member begins at the same offset.
				broken = append(broken, call.Key{Namespace: "ns", ID: "call-3"})
			}
			wantBroken(t, s, broken, call.Query{}, call.Query{Namespace: "ns"}, call.Query{Namespace: "ns", Run: "run"})
			if err := s.Purge(t.Context(), call.Key{Namespace: "ns", ID: "call-4"}, call.Purge{}); err != nil { // The purge turns the members into rows.
				t.Fatal(err)
			}
			wantBroken(t, s, broken, call.Query{}, call.Query{Namespace: "ns"})
			later := s.Now().Add(1)
			if trimmed, err := s.Trim(t.Context(), later, later, later, 10); err != nil || len(trimmed) != 5 {
				t.Errorf("Trim = %v, %v", trimmed, err)
			}
			err = s.read(t.Context(), func(conn *sqlite.Conn) error {
				return query(conn, "SELECT call_id FROM packed", func(st *sqlite.Stmt) error {
					t.Errorf("%s is still known to be in a pack", st.ColumnText(0))
					return nil
				})
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBrokenPack damages the stored form of a pack in every way. Afterwards each call must be unchanged or reported as damaged.
func TestBrokenPack(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := newPack(t, s)
	if len(p.stored) >= len(p.members)*9/10 {
		t.Fatalf("%d of %d bytes are stored", len(p.stored), len(p.members))
	}
	whole := slices.Clone(p.stored)
	look := func(name string, stored []byte) (refused int) {
		p.members = expand(p.members[:0], stored)
		for i := range int64(5) {
			m := p.member(p.position + i)
			r := m.row()
			if want := packedCall(fmt.Sprint("call-", i)).Call; r.Err != nil {
				refused++
			} else if r.Key != want.Key() || r.Call.Requested != want.Requested {
				t.Fatalf("%s: read %+v", name, r.Call)
			}
		}
		return refused
	}
	if n := look("whole", whole); n > 0 {
		t.Errorf("%d of a whole one are refused", n)
	}
	for bit := range 8 * len(whole) {
		whole[bit/8] ^= 1 << (bit % 8)
		look(fmt.Sprint("bit ", bit), whole)
		whole[bit/8] ^= 1 << (bit % 8)
	}
	for n := range whole {
		if look(fmt.Sprint("cut to ", n), whole[:n]) == 0 {
			t.Errorf("none is refused of the first %d bytes of %d", n, len(whole))
		}
	}
	whole = append(whole[:0], 0xff, 0xff, 0xff, 0xff, 0x0f) // a length of 4 GiB
	if n := look("huge", whole); n != 5 || cap(p.members) > 1<<20 {
		t.Errorf("%d are refused, room for %d bytes", n, cap(p.members))
	}
}

func wantBroken(t *testing.T, s *Store, broken []call.Key, queries ...call.Query) {
	t.Helper()
	for i := range 5 {
		key := call.Key{Namespace: "ns", ID: fmt.Sprint("call-", i)}
		_, err := s.Call(t.Context(), key)
		if is := strings.Contains(fmt.Sprint(broken), key.ID); errors.Is(err, store.ErrCorrupt) != is || !is && err != nil {
			t.Errorf("Call(%s) = %v", key.ID, err)
		}
	}
	for _, q := range queries {
		q.OldestFirst = true
		page, err := s.Calls(t.Context(), q)
		want := 6 - len(broken)
		if q.Run != "" {
			want--
		}
		if err != nil || len(page.Calls) != want || fmt.Sprint(page.Corrupt) != fmt.Sprint(broken) {
			t.Errorf("Calls(%+v) = %d calls, %v, corrupt %v", q, len(page.Calls), err, page.Corrupt)
		}
	}
}

// FuzzPack reads arbitrary bytes as a pack. Reading must not panic, and must not return a call after the last one.
func FuzzPack(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x18xxxxxxxxxxxxxxxxxxxxxxxx"), int64(0))
	f.Add(snappy.Encode(nil, []byte("\x00\x00\x00\x18xxxxxxxxxxxxxxxxxxxxxxxx")), int64(0))
	f.Add([]byte("\x00\x00\x00\x08\xff\xff\xff\xff"), int64(1))
	f.Fuzz(func(t *testing.T, members []byte, last int64) {
		p := pack{namespace: "ns", last: last, members: expand(nil, members)}
		for at := range int64(packCalls + 1) {
			m := p.member(at)
			if r := m.row(); r.Call != nil && at > last {
				t.Errorf("call %d of %d: %+v", at, last, r.Call)
			}
			c := m.chunk()
			_, _ = c.Decode(0, 10)
		}
	})
}

// TestPackWithRecords checks that calls with records still share a pack, and that each chained record is linked to the previous one.
func TestPackWithRecords(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	newPack(t, s, store.Record{Kind: "audit", Chained: true, Key: "k", Bytes: []byte("one")}, store.Record{Kind: "note", Key: "k"})
	chain, err := s.Records(t.Context(), "ns", "audit", 0, 10)
	if err != nil || len(chain) != 5 {
		t.Fatalf("%d records, %v", len(chain), err)
	}
	var before []byte
	for i, r := range chain {
		if want := fmt.Sprint("call-", i); r.CallID != want || string(r.Bytes) != string(store.Linked(before, "ns", want, r.Time, &store.Record{Kind: "audit", Chained: true, Key: "k", Bytes: []byte("one")})) {
			t.Errorf("record %d of %s is not linked to the one before", i, r.CallID)
		}
		before = r.Bytes
	}
}
