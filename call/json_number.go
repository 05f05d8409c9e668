package call

import (
	"encoding/json"
	"fmt"
)

// number parses a number and returns its token unchanged. The code that uses the value converts it.
func (p *jsonParser) number() (json.Number, error) {
	start := p.pos
	if p.at('-') {
		p.pos++
	}
	if p.at('0') {
		p.pos++
		if p.pos < len(p.text) && isDigit(p.text[p.pos]) {
			return "", &SyntaxError{Offset: p.pos - 1, Reason: "a number has a leading 0"}
		}
	} else if err := p.digits(); err != nil {
		return "", err
	}
	if p.at('.') {
		p.pos++
		if err := p.digits(); err != nil {
			return "", err
		}
	}
	if p.at('e') || p.at('E') {
		if err := p.exponent(); err != nil {
			return "", err
		}
	}
	if n := p.pos - start; n > maxNumberLength {
		return "", &SyntaxError{Offset: start, Reason: fmt.Sprintf("a number has %d characters, the limit is %d", n, maxNumberLength)}
	}
	p.write(p.text[start:p.pos])
	return json.Number(p.text[start:p.pos]), nil
}

func (p *jsonParser) exponent() error {
	start := p.pos
	p.pos++
	if p.at('+') || p.at('-') {
		p.pos++
	}
	first := p.pos
	if err := p.digits(); err != nil {
		return err
	}
	exponent := 0
	for _, c := range []byte(p.text[first:p.pos]) {
		exponent = min(exponent*10+int(c-'0'), maxExponent+1)
	}
	if exponent > maxExponent {
		return &SyntaxError{Offset: start, Reason: fmt.Sprintf("the exponent of a number is beyond %d", maxExponent)}
	}
	return nil
}

// digits skips one or more digits.
func (p *jsonParser) digits() error {
	first := p.pos
	for p.pos < len(p.text) && isDigit(p.text[p.pos]) {
		p.pos++
	}
	if p.pos == first {
		return p.expected(p.pos, "a digit")
	}
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
