package service

import (
	"context"
	"errors"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc/status"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/server/access"
)

// count counts requests by their method and status.
func count(ctx context.Context, r *request) error {
	r.method.running.Add(1)
	err := r.next(ctx)
	r.method.end(status.Code(err))
	return err
}

// mapError converts the error of a request to a status.
func (s *Service) mapError(ctx context.Context, r *request) error {
	return s.Status(r.name, r.next(ctx))
}

// authenticate finds the identity behind a request and puts it into the context.
func (s *Service) authenticate(ctx context.Context, r *request) (err error) {
	if r.id, err = s.cfg.Auth.Identify(ctx, r.credential); err != nil {
		r.id = access.Nobody
		return err
	}
	return r.next(access.With(ctx, r.id))
}

// permit refuses an identity that has no role for the method.
func permit(ctx context.Context, r *request) error {
	if err := r.method.Permit(r.id, r.name); err != nil {
		return err
	}
	return r.next(ctx)
}

// refuseUnknown refuses a method that is not in the table of package access.
func refuseUnknown(_ context.Context, r *request) error {
	return call.Refuse(call.PermissionDenied, "METHOD_NOT_ALLOWED", "no role may call %s", r.name)
}

// audit reports a request to the audit before it runs, and again when it fails.
func (s *Service) audit(ctx context.Context, r *request) error {
	s.operation(ctx, r.name, r.id, r.message, nil)
	err := r.next(ctx)
	if err != nil {
		s.operation(ctx, r.name, r.id, r.message, err)
	}
	return err
}

// untilRevoked ends the context of a request when the credential of its client ends. If a response is ready only after that, untilRevoked
// discards it. It does not use a deadline, because the status would then be DEADLINE_EXCEEDED, as for a deadline of the client.
func untilRevoked(ctx context.Context, r *request) error {
	if !r.method.Brief || !r.id.Expires.IsZero() {
		var stop func()
		ctx, stop = r.id.While(ctx)
		defer stop()
	}
	err := r.next(ctx)
	if err == nil && r.message != nil {
		return r.id.Ended()
	}
	return err
}

// untilLimit ends the context of a request at the limit of its method.
func untilLimit(ctx context.Context, r *request) error {
	ctx, cancel := context.WithTimeout(ctx, r.method.Limit)
	defer cancel()
	return r.next(ctx)
}

// errStopping ends streams that do not end by themselves.
var errStopping = &call.Refusal{
	Kind: call.Unavailable, Reason: "DRAINING", Message: "the daemon is stopping; connect to the next one", RetryAfter: time.Second,
}

// untilShutdown ends the context of a request when the server stops.
func (s *Service) untilShutdown(ctx context.Context, r *request) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.stopping, func() { cancel(errStopping) })()
	return r.next(ctx)
}

// nameCause replaces the error of an interrupted handler by the reason why its context ended. It does not replace a refusal.
func nameCause(ctx context.Context, r *request) error {
	err := r.next(ctx)
	if err == nil || ctx.Err() == nil {
		return err
	}
	if _, ok := errors.AsType[*call.Refusal](err); ok {
		return err
	}
	return context.Cause(ctx)
}

// leaveHandler returns when the context ends, even if the handler still waits for its client. The return ends the stream, and then the
// handler ends too.
func leaveHandler(ctx context.Context, r *request) error {
	ended := make(chan error, 1)
	go func() { ended <- r.next(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var recovering = recovery.UnaryServerInterceptor()

// recoverPanic converts a panic of the handler to an error.
func recoverPanic(ctx context.Context, r *request) error {
	_, err := recovering(ctx, nil, nil, func(ctx context.Context, _ any) (any, error) { return nil, r.next(ctx) })
	return err
}
