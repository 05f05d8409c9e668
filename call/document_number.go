package call

import (
	"math/big"
	"strconv"
	"strings"
)

// add returns the exact sum of two numbers as JSON text. A missing document counts as 0.
func add(document, value string) (string, error) {
	sum, ok := parseDecimal(value)
	if !ok {
		return "", &ConflictError{ConflictType, "the value is not a number"}
	}
	if document != "" {
		have, ok := parseDecimal(document)
		if !ok {
			return "", &ConflictError{ConflictType, "the document is not a number"}
		}
		sum = have.plus(sum)
	}
	text, ok := sum.token()
	if !ok {
		return "", &ConflictError{ConflictRange, "the sum has more digits than a number may have"}
	}
	return text, nil
}

// A decimal is the number digits × 10^exponent.
type decimal struct {
	digits   *big.Int
	exponent int
}

// parseDecimal parses a number that [ParseJSON] accepts. The limits of ParseJSON keep the computation small.
func parseDecimal(text string) (decimal, bool) {
	text = strings.Trim(text, jsonSpace)
	p := jsonParser{text: text}
	if text == "" || text[0] != '-' && !isDigit(text[0]) {
		return decimal{}, false
	}
	if _, err := p.number(); err != nil || p.pos != len(text) {
		return decimal{}, false
	}
	mantissa, power, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent, _ := strconv.Atoi(power) // Without an exponent, power is empty and Atoi returns 0.
	digits, ok := new(big.Int).SetString(whole+fraction, 10)
	return decimal{digits, exponent - len(fraction)}, ok
}

func (d decimal) plus(o decimal) decimal {
	if d.exponent < o.exponent {
		d, o = o, d
	}
	shift := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.exponent-o.exponent)), nil)
	return decimal{shift.Mul(shift, d.digits).Add(shift, o.digits), o.exponent}
}

// token formats the number in its canonical form: without an exponent if that form is not too long for a number, otherwise with an
// exponent. It returns false when both forms are too long.
func (d decimal) token() (string, bool) {
	text := d.digits.String()
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	digits := strings.TrimRight(text, "0")
	if digits == "" {
		return "0", true
	}
	exponent := d.exponent + len(text) - len(digits)
	plain := ""
	switch point := len(digits) + exponent; {
	case exponent >= 0 && point <= maxNumberLength:
		plain = digits + strings.Repeat("0", exponent)
	case exponent < 0 && point > 0:
		plain = digits[:point] + "." + digits[point:]
	case exponent < 0 && -exponent < maxNumberLength:
		plain = "0." + strings.Repeat("0", -point) + digits
	}
	if plain = sign + plain; plain != sign && len(plain) <= maxNumberLength {
		return plain, true
	}
	power := sign + digits + "e" + strconv.Itoa(exponent)
	return power, len(power) <= maxNumberLength && max(exponent, -exponent) <= maxExponent
}
