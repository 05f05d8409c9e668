package call

import (
	"math"
	"math/bits"
	"time"
)

// A field is written when it is not zero, and read when it is at hand. The functions of this file are the kinds of
// fields that hold one value.

// text is a field of text. When read it shares the memory of the whole record.
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

// blob is a field of bytes. The reader owns them and may change them.
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

// integer is a field that is short for small numbers of either sign.
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

// optional is an integer that may be absent, which is not the same as zero.
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

// fraction turns the bits around, because those of simple fractions end in zeros.
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

// instant is a time in nanoseconds since 1970. The zero time is left out; 1970 itself is not.
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
