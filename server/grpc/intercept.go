package grpcserver

import (
	"context"

	"google.golang.org/grpc"

	"github.com/toold-dev/toold/server/access"
)

// An interceptor is one step in the processing of a request. It has one concern, and calls r.next at most once. Unary requests, streams and
// the items of a session use the same interceptors.
type interceptor func(ctx context.Context, r *request) error

// A request holds the data that its interceptors share.
type request struct {
	name    string // full name of the method
	method  *method
	message any              // the message of a unary request; nil for a stream or an item of a session
	id      *access.Identity // [access.Nobody] until the client is authenticated
	left    []interceptor    // interceptors that have not run yet
	handler func(context.Context) error
}

// next runs the remaining interceptors and then the handler.
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

// itemInterceptors returns the chain for an item of a session. It has fewer interceptors: the client is already authenticated, and the
// context of an item ends with that of its session.
func (s *Server) itemInterceptors() []interceptor {
	return []interceptor{count, s.mapError, s.logRefusal, permit, nameCause, recoverPanic}
}

// intercept serves a request with the chain of its method.
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

// streamWithContext is a stream with the context that the interceptors derived.
type streamWithContext struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *streamWithContext) Context() context.Context { return s.ctx }

// item adapts the chain to an item of a session. The item is served as a request for the method name.
func (s *Server) item(ctx context.Context, id *access.Identity, name string, handler func(context.Context) error) error {
	return (&request{name: name, method: s.methods[name], id: id, left: s.items, handler: handler}).next(ctx)
}
