package grpcserver

import (
	"context"

	"google.golang.org/grpc"

	"github.com/toold-dev/toold/server/access"
)

// An interceptor is one step of the way to the handler of a request. It deals with one concern, and calls r.next at most once.
// The same interceptors serve unary requests, streams and the items of a session.
type interceptor func(ctx context.Context, r *request) error

// A request is what the interceptors of one request share.
type request struct {
	name    string // of the method, in full
	method  *method
	message any              // of a unary request; nil: a stream or an item of a session
	id      *access.Identity // [access.Nobody] until the client is authenticated
	left    []interceptor    // that were not called yet
	handler func(context.Context) error
}

// next calls the interceptors that are left, and the handler behind the last one.
func (r *request) next(ctx context.Context) error {
	if len(r.left) == 0 {
		return r.handler(ctx)
	}
	first := r.left[0]
	r.left = r.left[1:]
	return first(ctx, r)
}

// interceptors returns the chain of a method, outermost first.
func (s *Server) interceptors(m *method) []interceptor {
	chain := []interceptor{count, s.mapError, s.logRefusal}
	if !m.Public {
		chain = append(chain, s.authenticate, permit)
	}
	if m.Audited {
		chain = append(chain, s.audit)
	}
	if !m.Public {
		chain = append(chain, untilExpiry)
	}
	if m.Limit > 0 {
		chain = append(chain, untilLimit)
	}
	if m.Unending {
		chain = append(chain, s.untilShutdown)
	}
	chain = append(chain, nameCause)
	if m.IgnoresContext {
		chain = append(chain, leaveHandler)
	}
	return append(chain, recoverPanic)
}

// itemInterceptors returns the chain of an item of a session, whose client is authenticated and whose context ends with the session's.
func (s *Server) itemInterceptors() []interceptor {
	return []interceptor{count, s.mapError, s.logRefusal, permit, nameCause, recoverPanic}
}

// intercept serves a request through the chain of its method.
func (s *Server) intercept(ctx context.Context, name string, message any, handler func(context.Context) error) error {
	m := s.methods[name]
	if m == nil {
		m = &s.unknown
	}
	return (&request{name: name, method: m, message: message, id: access.Nobody, left: m.interceptors, handler: handler}).next(ctx)
}

// unary adapts the chain to methods with one response.
func (s *Server) unary(ctx context.Context, message any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	err = s.intercept(ctx, info.FullMethod, message, func(ctx context.Context) (err error) {
		response, err = handler(ctx, message)
		return err
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// stream adapts the chain to methods that stream.
func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return s.intercept(ss.Context(), info.FullMethod, nil, func(ctx context.Context) error {
		return handler(srv, &streamWithContext{ss, ctx})
	})
}

// streamWithContext is a stream with the context that the interceptors made.
type streamWithContext struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *streamWithContext) Context() context.Context { return s.ctx }

// item adapts the chain to an item of a session, which is served as the method that it names.
func (s *Server) item(ctx context.Context, id *access.Identity, name string, handler func(context.Context) error) error {
	return (&request{name: name, method: s.methods[name], id: id, left: s.items, handler: handler}).next(ctx)
}
