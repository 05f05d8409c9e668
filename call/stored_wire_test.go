package call

import "testing"

// TestWireSkipsBetween is inside the package because no record has a known field after a skipped one yet.
func TestWireSkipsBetween(t *testing.T) {
	type record struct {
		name string
		late int
	}
	fields := func(w *wire, r *record) {
		text(w, 1, &r.name)
		integer(w, 70, &r.late)
	}
	w := &wire{out: []byte{}}
	name, added, late := "name", "added later", 9
	text(w, 1, &name)
	text(w, firstSkippable, &added)
	integer(w, firstSkippable+1, &late)
	integer(w, 70, &late)

	var got record
	r := newReader(w.out)
	r.nextKey()
	fields(r, &got)
	r.finish()
	if want := (record{name, late}); r.err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, r.err, want)
	}
}
