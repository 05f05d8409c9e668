package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/toold-dev/toold/call"
)

// SessionTime is how long a session lasts by default. [Auth.SetSessionTime] sets another time. A session never lasts longer than the
// credential of its creator.
const SessionTime = 12 * time.Hour

// SetSessionTime sets how long later sessions last, and reports whether that is a change.
func (a *Auth) SetSessionTime(d time.Duration) (changed bool) {
	a.changing.Lock()
	defer a.changing.Unlock()
	changed = a.sessions != d
	a.sessions = d
	return changed
}

// CreateLogin creates a login link for the identity itself, and returns the secret of the link. The link is valid once, for [LoginTime].
func (a *Auth) CreateLogin(ctx context.Context, by *Identity) (text string, _ *Stored, err error) {
	s := &Stored{
		Kind: KindLogin, Name: "login", Principal: by.Principal, ReadOnly: by.readOnly,
		Expires: earlier(time.Now().UTC().Add(LoginTime), by.Expires), Until: by.Expires,
	}
	text, err = a.create(ctx, by, s)
	return text, s, err
}

// Exchange uses up a login link, and returns the text of a session with the rights of the link's creator. The session replaces the link in
// the store in one step. After a crash, either the session exists or the link is still unused.
func (a *Auth) Exchange(ctx context.Context, login string) (session string, expires time.Time, err error) {
	a.changing.Lock()
	defer a.changing.Unlock()
	link := a.tokens.Load().find(sha256.Sum256([]byte(login)))
	if link == nil || !link.is(KindLogin) || link.id.Ended() != nil {
		return "", time.Time{}, call.Refuse(call.Unauthenticated, "LOGIN_INVALID", "the login link is unknown, expired or used; `toold login` makes a new one")
	}
	s := *link.stored
	session, hash := KindSession.newText()
	s.Kind, s.Name, s.Hash, s.Created = KindSession, "session", hex.EncodeToString(hash[:]), time.Now().UTC()
	s.Expires, s.Until = earlier(s.Created.Add(a.sessions), s.Until), time.Time{}
	t, err := s.parse()
	if err != nil {
		return "", time.Time{}, err
	}
	if err := a.store.Put(ctx, &s); err != nil {
		return "", time.Time{}, err
	}
	all := slices.Collect(a.tokens.Load().all())
	all[slices.Index(all, link)] = t
	return session, s.Expires, a.publish(ctx, all)
}

// EndSession ends a session and its requests. It returns nil when the session has already ended.
func (a *Auth) EndSession(ctx context.Context, session string) error {
	a.changing.Lock()
	defer a.changing.Unlock()
	t := a.tokens.Load().find(sha256.Sum256([]byte(session)))
	if t == nil || !t.is(KindSession) {
		return nil
	}
	_, err := a.remove(ctx, slices.Collect(a.tokens.Load().all()), t)
	return err
}

func (a *Auth) session(text string) (*Identity, error) {
	t := a.tokens.Load().find(sha256.Sum256([]byte(text)))
	if t == nil || !t.is(KindSession) || t.id.expired() != nil {
		return nil, call.Refuse(call.Unauthenticated, "SESSION_ENDED", "the session has ended; `toold login` makes a link for a new one")
	}
	return &t.id, nil
}
