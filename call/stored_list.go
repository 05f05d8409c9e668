package call

import (
	"encoding/binary"
	"maps"
	"slices"
)

// part codes a field that is a record. It writes nothing when all fields of that record are zero.
func part[T any](w *wire, number uint64, p *T, fields func(*wire, *T)) {
	key := number<<1 | asBytes
	if !w.reading() {
		before := len(w.out)
		w.key(key)
		start := w.open()
		if fields(w, p); len(w.out) == start {
			w.out = w.out[:before]
			return
		}
		w.close(start)
	} else if w.wants(key) {
		readRecord(w, p, fields)
		w.nextKey()
	}
}

// pointer codes a part that may be nil. nil differs from a zero record.
func pointer[T any](w *wire, number uint64, p **T, fields func(*wire, *T)) {
	key := number<<1 | asBytes
	if !w.reading() {
		if *p != nil {
			w.key(key)
			start := w.open()
			fields(w, *p)
			w.close(start)
		}
	} else if w.wants(key) {
		*p = new(T)
		readRecord(w, *p, fields)
		w.nextKey()
	}
}

// readRecord reads a length and a record of that length.
func readRecord[T any](w *wire, p *T, fields func(*wire, *T)) {
	outer := w.end
	w.end = w.length()
	w.nextKey()
	fields(w, p)
	w.finish()
	w.end = outer
}

// list codes a field that is a list of records, each with its length. An empty list is read as nil.
func list[T any](w *wire, number uint64, p *[]T, fields func(*wire, *T)) {
	key := number<<1 | asBytes
	if !w.reading() {
		if len(*p) > 0 {
			w.key(key)
			start := w.open()
			writeItems(w, *p, fields)
			w.close(start)
		}
	} else if w.wants(key) {
		outer := w.end
		w.end = w.length()
		*p = readItems(w, fields)
		w.end = outer
		w.nextKey()
	}
}

func writeItems[T any](w *wire, items []T, fields func(*wire, *T)) {
	for i := range items {
		start := w.open()
		fields(w, &items[i])
		w.close(start)
	}
}

func readItems[T any](w *wire, fields func(*wire, *T)) []T {
	n := w.countItems()
	if n == 0 {
		return nil
	}
	items := make([]T, n)
	for i := range items {
		readRecord(w, &items[i], fields)
	}
	return items
}

// countItems returns the number of length-prefixed values up to the end. It fails when one is incomplete.
func (w *wire) countItems() (n int) {
	for at := w.at; at < w.end; n++ {
		length, size := binary.Uvarint(w.in[at:w.end])
		if size <= 0 || length > uint64(w.end-at-size) {
			w.fail("broken list")
			return 0
		}
		at += size + int(length)
	}
	return n
}

// texts codes a field that is a list of texts. An empty list is read as nil.
func texts(w *wire, number uint64, p *[]string) {
	key := number<<1 | asBytes
	if !w.reading() {
		if len(*p) > 0 {
			w.key(key)
			start := w.open()
			for _, s := range *p {
				w.writeText(s)
			}
			w.close(start)
		}
	} else if w.wants(key) {
		outer := w.end
		w.end = w.length()
		if n := w.countItems(); n > 0 {
			*p = make([]string, n)
		}
		for i := range *p {
			(*p)[i] = w.readText()
		}
		w.end = outer
		w.nextKey()
	}
}

// integers codes a field that is a list of integers. An empty list is read as nil.
func integers(w *wire, number uint64, p *[]int) {
	list(w, number, p, func(w *wire, v *int) { integer(w, 1, v) })
}

// An entry is a member of a map.
type entry[V any] struct {
	name  string
	value V
}

// members codes a field that is a map, in the order of its names. An empty map is read as nil.
func members[V any](w *wire, number uint64, p *map[string]V, value func(w *wire, number uint64, p *V)) {
	var entries []entry[V]
	if !w.reading() {
		if len(*p) == 0 {
			return
		}
		entries = make([]entry[V], 0, len(*p))
		for _, name := range slices.Sorted(maps.Keys(*p)) {
			entries = append(entries, entry[V]{name, (*p)[name]})
		}
	}
	list(w, number, &entries, func(w *wire, e *entry[V]) {
		text(w, 1, &e.name)
		value(w, 2, &e.value)
	})
	if w.reading() && len(entries) > 0 {
		*p = make(map[string]V, len(entries))
		for _, e := range entries {
			(*p)[e.name] = e.value
		}
	}
}
