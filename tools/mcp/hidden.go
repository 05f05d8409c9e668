package mcp

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

const (
	maxHidden   = 16        // values that are taken out of what the server sends
	hiddenMark  = "[token]" // replaces them
	leastHidden = 8         // bytes of a value that is taken out: longer than the mark, so that no message grows
)

// learn redacts the values of a record from now on.
func (s *signin) learn(r *record) {
	values := []string{s.secret(&r.Way)}
	for _, m := range r.members() {
		values = append(values, m.Secret)
	}
	if r.Token != nil {
		values = append(values, r.Token.RefreshToken, r.Token.AccessToken)
	}
	for _, v := range values {
		if len(v) < leastHidden { // it is no secret
			continue
		}
		if r.Token != nil && random(v) && s.cfg.Known != nil { // a person approved the server that chose it
			s.cfg.Known(s.key, v)
		}
		s.mu.Lock()
		s.hidden = append(slices.DeleteFunc(s.hidden, func(o string) bool { return o == v }), v)
		s.hidden = s.hidden[max(0, len(s.hidden)-maxHidden):]
		s.mu.Unlock()
	}
}

// random reports whether a value looks like no ordinary text: its authorization server chose it, and what
// it chooses is taken out of everybody's text. Words, paths, names of types and hashes, which are others' too, stay.
func random(v string) bool {
	return letters.MatchString(v) && strings.ContainsAny(v, "0123456789") &&
		strings.ContainsAny(v, "abcdefghijklmnopqrstuvwxyz") && strings.ContainsAny(v, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
}

var letters = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]{16,}$`)

// hideText is hide for what the daemon says of the server, in words that may be the server's.
func (s *signin) hideText(text string) string { return string(s.hide([]byte(text))) }

// hide takes what the daemon is known by, or was lately, out of what the server sends.
func (s *signin) hide(message []byte) []byte {
	if s == nil {
		return message
	}
	s.mu.Lock()
	hidden := slices.Clone(s.hidden)
	s.mu.Unlock()
	for _, v := range hidden {
		for _, form := range []string{v, strings.ReplaceAll(v, "/", `\/`)} {
			if bytes.Contains(message, []byte(form)) { // else it would be copied
				message = bytes.ReplaceAll(message, []byte(form), []byte(hiddenMark))
			}
		}
	}
	return message
}
