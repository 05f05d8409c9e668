package call

import (
	"math"
	"math/bits"
	"time"
)

// Each function of this file codes one kind of field with a single value. When writing, it writes a value that is not zero. When reading,
// it reads the value if the next key is that of the field.

// text codes a text field. A read text shares the memory of the whole record.
func text[T ~string](w *wire, number uint64, p *T) {
	key := number<<1 | asBytes
	if !w.reading() {
		if len(*p) > 0 {
			w.key(key)
			w.writeText(string(*p))
		}
	} else if w.wants(key) {
		*p = T(w.readText())
		w.nextKey()
	}
}

// blob codes a field of bytes. Read bytes are a copy, so the caller may modify them.
func blob[T ~[]byte](w *wire, number uint64, p *T) {
	key := number<<1 | asBytes
	if !w.reading() {
		if len(*p) > 0 {
			w.key(key)
			w.putVarint(uint64(len(*p)))
			w.out = append(w.out, *p...)
		}
	} else if w.wants(key) {
		*p = T(w.readText())
		w.nextKey()
	}
}

// integer codes an integer field. Small positive and negative numbers are short.
func integer[T ~int | ~int64](w *wire, number uint64, p *T) {
	key := number<<1 | asVarint
	if !w.reading() {
		if *p != 0 {
			w.key(key)
			w.putVarint(zigzag(int64(*p)))
		}
	} else if w.wants(key) {
		*p = T(fromZigzag(w.varint()))
		w.nextKey()
	}
}

// optional codes an integer that may be nil. nil differs from zero.
func optional[T ~int64](w *wire, number uint64, p **T) {
	key := number<<1 | asVarint
	if !w.reading() {
		if *p != nil {
			w.key(key)
			w.putVarint(zigzag(int64(**p)))
		}
	} else if w.wants(key) {
		v := T(fromZigzag(w.varint()))
		*p = &v
		w.nextKey()
	}
}

func flag(w *wire, number uint64, p *bool) {
	key := number<<1 | asVarint
	if !w.reading() {
		if *p {
			w.key(key)
			w.out = append(w.out, 1)
		}
	} else if w.wants(key) {
		*p = w.varint() != 0
		w.nextKey()
	}
}

// fraction codes a float. It reverses the bits, because the bits of simple fractions end in zeros: the reversed bits are a small number,
// which has a short varint.
func fraction(w *wire, number uint64, p *float64) {
	key := number<<1 | asVarint
	if !w.reading() {
		if b := math.Float64bits(*p); b != 0 {
			w.key(key)
			w.putVarint(bits.Reverse64(b))
		}
	} else if w.wants(key) {
		*p = math.Float64frombits(bits.Reverse64(w.varint()))
		w.nextKey()
	}
}

// instant codes a time in nanoseconds since 1970. It leaves out the zero time, but not 1970 itself.
func instant(w *wire, number uint64, p *time.Time) {
	key := number<<1 | asVarint
	if !w.reading() {
		if !p.IsZero() {
			w.key(key)
			w.putVarint(zigzag(w.nanoseconds(*p)))
		}
	} else if w.wants(key) {
		*p = time.Unix(0, fromZigzag(w.varint())).UTC()
		w.nextKey()
	}
}
