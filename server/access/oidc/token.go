package oidc

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// A token is a parsed token. Its signature is not verified yet.
type token struct {
	jws       *jose.JSONWebSignature
	algorithm string
	kid       string // may be empty
	claims    claims
}

// foreign lists the header parameters that bring a key with the token or say where to fetch one, and parameters that change how the token
// is read. toold refuses a token with any of them: a key that the token itself chooses proves nothing.
var foreign = []string{"jku", "jwk", "x5u", "x5c", "crit", "b64", "zip"}

func parse(text string) (*token, error) {
	if len(text) > MaxToken {
		return nil, fmt.Errorf("it has %d bytes; at most %d are allowed", len(text), MaxToken)
	}
	head, _, _ := strings.Cut(text, ".")
	raw, err := base64.RawURLEncoding.DecodeString(head)
	var header map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &header) != nil {
		return nil, errors.New("its header is not base64url of JSON")
	}
	for _, name := range foreign {
		if _, has := header[name]; has {
			return nil, fmt.Errorf("its header has the parameter %s", name)
		}
	}
	jws, err := jose.ParseSignedCompact(text, algorithms)
	if err != nil {
		if errors.As(err, new(*jose.ErrUnexpectedSignatureAlgorithm)) {
			return nil, fmt.Errorf("its algorithm %s is not one of %v", short(claims(header).quoted("alg")), algorithms)
		}
		return nil, errors.New("it is not a signed token (JWS)")
	}
	t := &token{jws: jws, algorithm: jws.Signatures[0].Header.Algorithm, kid: jws.Signatures[0].Header.KeyID}
	if json.Unmarshal(jws.UnsafePayloadWithoutVerification(), &t.claims) != nil {
		return nil, errors.New("its claims are not a JSON object")
	}
	return t, nil
}

// claims are the members of a JSON object. Their names are case-sensitive, unlike the names of struct fields in encoding/json. Otherwise, a
// claim Sub that a person chose at the issuer could replace the claim sub.
type claims map[string]json.RawMessage

// text returns a claim that is a text, and "" for every other value.
func (c claims) text(name string) (text string) {
	_ = json.Unmarshal(c[name], &text) // a claim of another type counts as missing
	return text
}

// texts returns a claim that is a list of texts, or a single text.
func (c claims) texts(name string) (texts []string) {
	if json.Unmarshal(c[name], &texts) == nil {
		return texts
	}
	if text := c.text(name); text != "" {
		return []string{text}
	}
	return nil
}

// time returns a claim that is a time in seconds since 1970. It is zero when the claim is missing.
func (c claims) time(name string) (time.Time, error) {
	const year9999 = 253370764800 // The beginning of 9999. With the skew added, a time stays before the year 10000, which JSON cannot represent.
	if c[name] == nil {
		return time.Time{}, nil
	}
	var seconds float64
	if err := json.Unmarshal(c[name], &seconds); err != nil || seconds < 0 || seconds >= year9999 {
		return time.Time{}, fmt.Errorf("its claim %s is not a time in seconds since 1970", name)
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), nil
}

func (c claims) quoted(name string) string { return fmt.Sprintf("%q", c.text(name)) }
