package mcp

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

const (
	maxHidden   = 16        // maximum number of values that are redacted
	hiddenMark  = "[token]" // replaces a redacted value
	leastHidden = 8         // minimum length of a redacted value in bytes; longer than the mark, so that redaction never makes a message longer
)

// learn makes hide redact the secret values of a record.
func (s *signin) learn(r *record) {
	values := []string{s.secret(&r.Way)}
	for _, m := range r.members() {
		values = append(values, m.Secret)
	}
	if r.Token != nil {
		values = append(values, r.Token.RefreshToken, r.Token.AccessToken)
	}
	for _, v := range values {
		if len(v) < leastHidden { // The value is too short to be redacted.
			continue
		}
		if r.Token != nil && random(v) && s.cfg.Known != nil { // A token exists only after a person has approved the authorization server, which chose the value.
			s.cfg.Known(s.key, v)
		}
		s.mu.Lock()
		s.hidden = append(slices.DeleteFunc(s.hidden, func(o string) bool { return o == v }), v)
		s.hidden = s.hidden[max(0, len(s.hidden)-maxHidden):]
		s.mu.Unlock()
	}
}

// random reports whether a value looks random. An authorization server chooses these values, and Known redacts them in the texts of all
// sources. So Known must not get a value that other texts may contain: an ordinary word, a path, a type name or a hash.
func random(v string) bool {
	return letters.MatchString(v) && strings.ContainsAny(v, "0123456789") &&
		strings.ContainsAny(v, "abcdefghijklmnopqrstuvwxyz") && strings.ContainsAny(v, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
}

var letters = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]{16,}$`)

// hideText redacts a text that the daemon wrote and that may quote the server.
func (s *signin) hideText(text string) string { return string(s.hide([]byte(text))) }

// hide replaces the daemon's current and recent credentials in a message from the server.
func (s *signin) hide(message []byte) []byte {
	if s == nil {
		return message
	}
	s.mu.Lock()
	hidden := slices.Clone(s.hidden)
	s.mu.Unlock()
	for _, v := range hidden {
		for _, form := range []string{v, strings.ReplaceAll(v, "/", `\/`)} {
			if bytes.Contains(message, []byte(form)) { // ReplaceAll would always copy the message, even without a match.
				message = bytes.ReplaceAll(message, []byte(form), []byte(hiddenMark))
			}
		}
	}
	return message
}
