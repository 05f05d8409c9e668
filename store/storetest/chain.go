package storetest

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// testChain checks that each chained record is linked to the previous record in its namespace. It covers calls, changes of one group,
// refused changes, and restarts.
func testChain(t *testing.T, f *fixture) {
	put := func(namespace, text string) {
		t.Helper()
		if err := f.PutRecord(t.Context(), namespace, store.Record{Kind: "audit", Chained: true, Key: text, Bytes: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	put("ns", "first")
	put("other", "first of another")
	change := creation(newCall("a"))
	change.Records = []store.Record{{Kind: "audit", Chained: true, Key: "second", Bytes: []byte("second")}, {Kind: "note", Key: "k"}, {Kind: "audit", Chained: true, Key: "third", Bytes: []byte("third")}}
	f.commit(change)
	again := creation(newCall("a"))
	again.Records = []store.Record{{Kind: "audit", Chained: true, Key: "lost", Bytes: []byte("lost")}}
	if err := f.Commit(t.Context(), again); err == nil {
		t.Fatal("second create accepted")
	}
	f.clock.move(time.Hour)
	f.reopen()
	put("ns", "fourth")
	var changes []*store.Change
	for i := range 20 {
		c := creation(newCall(fmt.Sprint("many-", i)))
		c.Records = []store.Record{{Kind: "audit", Chained: true, Key: "many", Bytes: []byte{byte(i)}}}
		changes = append(changes, c)
	}
	var group sync.WaitGroup
	for _, c := range changes {
		group.Add(1)
		f.Submit(c, func(err error) {
			defer group.Done()
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	f.crash()
	for namespace, want := range map[string]int{"ns": 24, "other": 1} {
		records, err := f.Store.(store.RecordReader).Records(t.Context(), namespace, "audit", 0, 100)
		if err != nil || len(records) != want {
			t.Fatalf("%d records of %s, %v; want %d", len(records), namespace, err, want)
		}
		var before []byte
		for i, r := range records {
			if link := call.Link(before, namespace, r.Key, r.CallID, r.Time.Time(), r.Bytes[call.LinkSize:]); !bytes.Equal(link, r.Bytes[:call.LinkSize]) {
				t.Errorf("record %d of %s (%s) is not linked to the one before it", i, namespace, r.Key)
			}
			before = r.Bytes[:call.LinkSize]
		}
		checkBackwards(t, f, namespace, records)
	}
}

// checkBackwards reads records in pages, the newest first. It compares them with want, which has the opposite order.
func checkBackwards(t *testing.T, f *fixture, namespace string, want []store.StoredRecord) {
	t.Helper()
	var got []store.StoredRecord
	for before := int64(math.MaxInt64); ; before = got[len(got)-1].Position {
		page, err := f.Store.(store.RecordReader).RecordsBefore(t.Context(), namespace, "audit", before, 7)
		if err != nil || len(page) > 7 {
			t.Fatalf("%d records before %d, %v", len(page), before, err)
		}
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
	}
	slices.Reverse(got)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("records of %s, newest first: %v; want the reverse of %v", namespace, got, want)
	}
}

// testTrimChain checks that a trimmed chain still begins with a record that is older than the retention time. A reader can conclude from it
// that retention, and no attacker, removed the beginning.
func testTrimChain(t *testing.T, f *fixture) {
	put := func(namespace, kind string, names ...string) {
		t.Helper()
		for _, name := range names {
			if err := f.PutRecord(t.Context(), namespace, store.Record{Kind: kind, Key: name, Bytes: []byte(name), Chained: kind != "note"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(namespace, kind string, want ...string) {
		t.Helper()
		records, err := f.Store.(store.RecordReader).Records(t.Context(), namespace, kind, 0, 100)
		var got []string
		for _, r := range records {
			got = append(got, r.Key)
		}
		if err != nil || !same(got, want) {
			t.Errorf("%s %s: %v, %v; want %v", namespace, kind, got, err, want)
		}
	}
	trim := func() {
		t.Helper()
		if _, err := f.Trim(t.Context(), 0, f.Now().Add(-time.Hour), 0, 100); err != nil {
			t.Fatal(err)
		}
	}
	put("ns", "audit", "1", "2")
	put("quiet", "audit", "1", "2", "3")
	put("quiet", "seal", "1", "2")
	put("ns", "note", "1")
	f.clock.move(2 * time.Hour)
	trim() // All records are old now.
	want("ns", "audit", "2")
	want("quiet", "audit", "3")
	want("quiet", "seal", "2")
	want("ns", "note")
	put("ns", "audit", "4", "5")
	trim()
	want("ns", "audit", "2", "4", "5")
	f.clock.move(2 * time.Hour)
	put("ns", "audit", "6")
	trim()
	want("ns", "audit", "5", "6")
	want("quiet", "audit", "3")
	want("quiet", "seal", "2")
	f.reopen()
	records, err := f.Store.(store.RecordReader).Records(t.Context(), "ns", "audit", 0, 100)
	if err != nil || len(records) != 2 {
		t.Fatal(records, err)
	}
	before, r := records[0].Bytes[:call.LinkSize], records[1]
	if !bytes.Equal(call.Link(before, "ns", r.Key, r.CallID, r.Time.Time(), r.Bytes[call.LinkSize:]), r.Bytes[:call.LinkSize]) {
		t.Error("a record is not linked to the one that stayed")
	}
}
