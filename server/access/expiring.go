package access

import (
	"slices"
	"strings"
	"time"
)

// An Expiring is a token that expires.
type Expiring struct {
	Name, Subject string
	Created       time.Time // zero for a token of the configuration
	Expires       time.Time
}

// Expiring returns tokens that are valid now and for which soon returns true, in the order of their expiry. It looks only at the namespaces
// that the identity oversees, and omits browser sessions and login links.
func (a *Auth) Expiring(by *Identity, soon func(created, expires time.Time) bool) (out []Expiring) {
	for t := range a.tokens.Load().all() {
		if !t.is(KindToken) || t.id.Expires.IsZero() || !by.Oversees(t.id.Namespace) || t.id.expired() != nil {
			continue
		}
		e := Expiring{Name: t.id.Subject, Subject: t.id.Subject, Expires: t.id.Expires}
		if t.stored != nil {
			e.Created = t.stored.Created
			if t.stored.Name != "" {
				e.Name = t.stored.Name
			}
		}
		if soon(e.Created, e.Expires) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b Expiring) int {
		if c := a.Expires.Compare(b.Expires); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}
