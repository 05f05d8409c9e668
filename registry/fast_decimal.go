package registry

import (
	"math"
	"math/big"
	"math/bits"
	"strings"
)

// A decimal is magnitude / 10^scale with a sign. Each number has exactly one form: the fraction does not end in 0, and zero has no sign.
type decimal struct {
	negative  bool
	magnitude uint64
	scale     uint8 // not larger than maxScale
}

// maxScale keeps magnitude × 10^scale within 128 bits.
const maxScale = 18

// parseDecimal parses a JSON number without an exponent and with at most about 19 digits. ok is false for other numbers.
func parseDecimal(token string) (d decimal, ok bool) {
	digits := strings.TrimPrefix(token, "-")
	if digits == "" || len(digits) > 1 && digits[0] == '0' && digits[1] != '.' {
		return decimal{}, false
	}
	point := false
	for i, c := range []byte(digits) {
		switch {
		case '0' <= c && c <= '9' && d.magnitude <= (math.MaxUint64-9)/10:
			d.magnitude = d.magnitude*10 + uint64(c-'0')
			if point {
				d.scale++
			}
		case c == '.' && !point && i > 0:
			point = true
		default:
			return decimal{}, false
		}
	}
	if d.scale > maxScale || point && d.scale == 0 {
		return decimal{}, false
	}
	for d.scale > 0 && d.magnitude%10 == 0 {
		d.magnitude /= 10
		d.scale--
	}
	d.negative = len(digits) < len(token) && d.magnitude > 0
	return d, true
}

// decimalOf converts a number to a decimal. It returns false when the number does not fit.
func decimalOf(r *big.Rat) (decimal, bool) {
	text := r.FloatString(maxScale)
	text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	d, ok := parseDecimal(text)
	if !ok {
		return decimal{}, false
	}
	back, ok := new(big.Rat).SetString(text)
	return d, ok && back.Cmp(r) == 0
}

func (d decimal) isInteger() bool { return d.scale == 0 }

// compare returns -1, 0 or 1.
func (d decimal) compare(other decimal) int {
	order := 1
	if d.negative {
		order = -1
	}
	if d.negative != other.negative {
		return order
	}
	high, low := d.raised(other.scale)
	otherHigh, otherLow := other.raised(d.scale)
	switch {
	case high == otherHigh && low == otherLow:
		return 0
	case high < otherHigh || high == otherHigh && low < otherLow:
		return -order
	}
	return order
}

// raised returns the magnitude in 128 bits, scaled so that it can be compared with a number of the scale other.
func (d decimal) raised(other uint8) (high, low uint64) {
	factor := uint64(1)
	for range int(other) - int(d.scale) {
		factor *= 10
	}
	return bits.Mul64(d.magnitude, factor)
}
