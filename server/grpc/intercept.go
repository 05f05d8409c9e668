package grpcserver

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/server/access"
)

// method is an entry of the table with its counts.
type method struct {
	access.Rule
	meter
}

// errStopping ends streams that have no end of their own.
var errStopping = &call.Refusal{
	Kind: call.Unavailable, Reason: "DRAINING", Message: "the daemon is stopping; come back to the next one", RetryAfter: time.Second,
}

// admit finds a method and who asks for it, and refuses who may not.
func (s *Server) admit(ctx context.Context, name string) (*method, *access.Identity, error) {
	m := s.methods[name]
	if m == nil {
		return &s.unknown, access.Nobody, call.Refuse(call.PermissionDenied, "METHOD_NOT_ALLOWED", "nobody may call %s", name)
	}
	if m.Public {
		return m, access.Nobody, nil
	}
	id, err := identify(ctx, s.cfg.Auth)
	if err != nil {
		return m, access.Nobody, err
	}
	m, err = s.mayUse(id, name)
	return m, id, err
}

// identify returns the identity behind a request.
func identify(ctx context.Context, auth *access.Auth) (*access.Identity, error) {
	var user peerInfo
	local := false
	if p, ok := peer.FromContext(ctx); ok {
		user, local = p.AuthInfo.(peerInfo)
	}
	return auth.Identify(metadata.ValueFromIncomingContext(ctx, "authorization"), user.uid, local)
}

// mayUse finds a method of the table and refuses an identity that may not use it.
func (s *Server) mayUse(id *access.Identity, name string) (*method, error) {
	m := s.methods[name]
	return m, m.Permit(id, name)
}

// unary is the chain around every method that answers once.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	m, id, err := s.admit(ctx, info.FullMethod)
	m.running.Add(1)
	if err != nil {
		return nil, s.done(ctx, info.FullMethod, m, id, err)
	}
	ctx, stop := whileValid(access.With(ctx, id), id)
	defer stop()
	if m.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.Limit)
		defer cancel()
	}
	if m.Audited {
		s.operation(ctx, info.FullMethod, id, req, nil)
	}
	resp, err := handler(ctx, req)
	if err == nil && !id.Expires.IsZero() && ctx.Err() != nil && time.Now().After(id.Expires) {
		err = access.Expired(id.Expires) // a wait that ends answers with what there is, but to nobody any more
	}
	if err != nil {
		resp = nil
		if m.Audited {
			s.operation(ctx, info.FullMethod, id, req, err)
		}
	}
	return resp, s.done(ctx, info.FullMethod, m, id, err)
}

// stream is the chain around every method that streams.
func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx := ss.Context()
	m, id, err := s.admit(ctx, info.FullMethod)
	m.running.Add(1)
	if err != nil {
		return s.done(ctx, info.FullMethod, m, id, err)
	}
	ctx, stop := whileValid(access.With(ctx, id), id)
	defer stop()
	if m.Unending {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer context.AfterFunc(s.stopping, func() { cancel(errStopping) })()
		defer cancel(nil)
	}
	handle := func() error { return handler(srv, &identified{ss, ctx}) }
	if m.IgnoresContext {
		err = whileOpen(ctx, handle)
	} else {
		err = handle()
	}
	return s.done(ctx, info.FullMethod, m, id, err)
}

// whileOpen returns when ctx ends, also when handle goes on waiting for its client: that ends with the stream, which ends when
// its method returns.
func whileOpen(ctx context.Context, handle func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- handle() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// whileValid ends ctx with the credential: what it opened, and what waits for an answer. That is no deadline, which would
// be the client's.
func whileValid(ctx context.Context, id *access.Identity) (context.Context, func()) {
	if id.Expires.IsZero() {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(time.Until(id.Expires), func() { cancel(access.Expired(id.Expires)) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// identified is a stream with who asked in its context.
type identified struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *identified) Context() context.Context { return s.ctx }

// done counts, writes down who was not let through, and makes the status.
func (s *Server) done(ctx context.Context, name string, m *method, id *access.Identity, err error) error {
	if err == nil {
		m.end(codes.OK)
		return nil
	}
	var refusal *call.Refusal
	if !errors.As(err, &refusal) && ctx.Err() != nil { // what was interrupted may say so in its own way
		err = context.Cause(ctx)
	}
	if errors.As(err, &refusal) {
		s.logRefusal(ctx, name, id, refusal)
	}
	err = s.toStatus(name, err)
	m.end(status.Code(err))
	return err
}

// logRefusal tells the operator who was not let in or not allowed; other refusals are the daily business of clients.
func (s *Server) logRefusal(ctx context.Context, name string, id *access.Identity, r *call.Refusal) {
	level := zap.DebugLevel
	if slices.Contains([]call.RefusalKind{call.Unauthenticated, call.PermissionDenied}, r.Kind) {
		level = zap.WarnLevel
	}
	entry := s.log.Check(level, "request refused")
	if entry == nil || level == zap.WarnLevel && !s.refusals.allow(time.Now()) {
		return
	}
	from := ""
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		from = p.Addr.String()
	}
	entry.Write(zap.String("method", name), zap.String("namespace", id.Namespace), zap.String("subject", id.Subject),
		zap.String("from", from), zap.String("reason", r.Reason), zap.String("why", r.Message), zap.Int64("left_out", s.refusals.dropped.Swap(0)))
}

// sparse lets at most ten lines a second through, so that who knocks without end does not fill the disk.
type sparse struct {
	second, lines, dropped atomic.Int64
}

func (s *sparse) allow(now time.Time) bool {
	if second := now.Unix(); s.second.Swap(second) != second {
		s.lines.Store(0)
	}
	if s.lines.Add(1) <= 10 {
		return true
	}
	s.dropped.Add(1)
	return false
}
