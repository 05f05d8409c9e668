package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Secret is a key shared with the receiver.
type Secret []byte

const (
	secretPrefix = "whsec_"
	maxSecrets   = 2
)

// ParseSecrets parses a secret file: one line of whsec_ and base64, or two lines during a key rotation.
func ParseSecrets(text []byte) (secrets []Secret, err error) {
	for line := range bytes.Lines(text) {
		word := strings.TrimSpace(string(line))
		if word == "" {
			continue
		}
		digits, ok := strings.CutPrefix(word, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(digits)
		if !ok || err != nil || len(key) < 24 || len(key) > 64 {
			return nil, fmt.Errorf("line %d is not whsec_ followed by 24 to 64 bytes in base64", len(secrets)+1) // the error must not contain the text
		}
		secrets = append(secrets, key)
	}
	switch {
	case len(secrets) == 0:
		return nil, errors.New("contains no secret")
	case len(secrets) > maxSecrets:
		return nil, fmt.Errorf("contains %d secrets; at most %d are allowed: the new one and the previous one", len(secrets), maxSecrets)
	}
	return secrets, nil
}

// keys returns a function that returns the secrets of a target.
func (n *Notifier) keys(t *Target) func(context.Context) ([]Secret, error) {
	if t.Reference == "" {
		return func(context.Context) ([]Secret, error) { return t.Secrets, nil }
	}
	return func(ctx context.Context) ([]Secret, error) {
		text, err := n.resolve(ctx, t.Name, t.Reference)
		if err != nil {
			return nil, err
		}
		return ParseSecrets([]byte(text))
	}
}

// signature returns the value of the header webhook-signature. It contains one version 1 signature for each secret.
func signature(secrets []Secret, id string, at time.Time, body string) string {
	var all []string
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "." + body))
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(all, " ")
}
