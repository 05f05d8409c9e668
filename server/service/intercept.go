package service

import (
	"context"

	"github.com/toold-dev/toold/server/access"
)

// An interceptor is one step in the processing of a request. It has one concern, and invokes r.next at most once. Unary requests, streams
// and the items of a session use the same interceptors.
type interceptor func(ctx context.Context, r *request) error

// A request holds the data that its interceptors share.
type request struct {
	name       string // full name of the method
	method     *method
	message    any // the message of a unary request; nil for a stream or an item of a session
	credential access.Credential
	id         *access.Identity // [access.Nobody] until the client is authenticated
	left       []interceptor    // interceptors that have not run yet
	handler    func(context.Context) error
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
func (s *Service) interceptors(m *method) []interceptor {
	chain := []interceptor{count, s.mapError, s.logRefusal}
	if !m.Public {
		chain = append(chain, s.authenticate, permit)
	}
	if m.Audited {
		chain = append(chain, s.audit)
	}
	if !m.Public {
		chain = append(chain, untilRevoked)
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
func (s *Service) itemInterceptors() []interceptor {
	return []interceptor{count, s.mapError, s.logRefusal, permit, nameCause, recoverPanic}
}

// Serve serves a request of an endpoint. It authenticates the client by its credential, checks whether the client may call the method, and
// calls the handler. name is the full name of the method. message is the message of a unary request, or nil for a stream. The returned
// error is a gRPC status.
func (s *Service) Serve(ctx context.Context, c access.Credential, name string, message any, handler func(context.Context) error) error {
	m := s.methods[name]
	if m == nil {
		m = &s.unknown
	}
	return (&request{name: name, method: m, message: message, credential: c, id: access.Nobody, left: m.interceptors, handler: handler}).next(ctx)
}

// item serves an item of a session as a request for the method with this name. It uses the shorter chain of interceptors.
func (s *Service) item(ctx context.Context, id *access.Identity, name string, handler func(context.Context) error) error {
	return (&request{name: name, method: s.methods[name], id: id, left: s.items, handler: handler}).next(ctx)
}
