package service

import (
	"context"
	"time"

	"github.com/toold-dev/toold/server/access"
)

// SignIn uses up a login link. It returns the text of a session and the time when the session ends; see [access.Auth.Exchange]. The audit
// records the sign-in.
func (s *Service) SignIn(ctx context.Context, link string) (session string, expires time.Time, err error) {
	if session, expires, err = s.cfg.Auth.Exchange(ctx, link); err == nil {
		s.reportSession(ctx, "SignIn", session)
	}
	return session, expires, err
}

// SignOut ends a session. It returns nil when the session has already ended. The audit records the sign-out.
func (s *Service) SignOut(ctx context.Context, session string) error {
	s.reportSession(ctx, "SignOut", session)
	return s.cfg.Auth.EndSession(ctx, session)
}

// reportSession reports an operation of the principal of a valid session.
func (s *Service) reportSession(ctx context.Context, method, session string) {
	if s.cfg.Operation == nil {
		return
	}
	if id, err := s.cfg.Auth.Identify(ctx, access.Credential{Session: session}); err == nil {
		s.operation(ctx, method, id, nil, nil)
	}
}
