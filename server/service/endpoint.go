package service

import (
	"context"

	"google.golang.org/grpc"

	"github.com/toold-dev/toold/server/access"
)

// Unary serves a request of an endpoint that does not use gRPC. f is the method of a service, and name is its full name. The context holds
// the credential of the client; see [access.WithCredential].
func Unary[Req, Res any](ctx context.Context, s *Service, name string, f func(context.Context, *Req) (*Res, error), req *Req) (res *Res, err error) {
	err = s.Serve(ctx, access.CredentialFrom(ctx), name, req, func(ctx context.Context) (err error) {
		res, err = f(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// Stream serves a streaming request of an endpoint that does not use gRPC, like [Unary]. It calls send for each response, one at a time.
// send must not change the response, and must return when ctx ends.
func Stream[Req, Res any](ctx context.Context, s *Service, name string, f func(*Req, grpc.ServerStreamingServer[Res]) error, req *Req, send func(*Res) error) error {
	return s.Serve(ctx, access.CredentialFrom(ctx), name, nil, func(ctx context.Context) error {
		return f(req, &sender[Res]{ctx: ctx, send: send})
	})
}

// A sender is the stream that a method of a service sends its responses to.
type sender[Res any] struct {
	grpc.ServerStream // nil: methods use only the methods below
	ctx               context.Context
	send              func(*Res) error
}

// Context implements [grpc.ServerStream].
func (s *sender[Res]) Context() context.Context { return s.ctx }

// Send implements [grpc.ServerStreamingServer].
func (s *sender[Res]) Send(res *Res) error { return s.send(res) }

// Bidi serves a request whose client and server send messages independently.
func Bidi[Req, Res any](ctx context.Context, s *Service, name string, f func(grpc.BidiStreamingServer[Req, Res]) error, receive func() (*Req, error), send func(*Res) error) error {
	return s.Serve(ctx, access.CredentialFrom(ctx), name, nil, func(ctx context.Context) error {
		return f(&exchange[Req, Res]{sender[Res]{ctx: ctx, send: send}, receive})
	})
}

// An exchange is a sender that also receives the messages of the client.
type exchange[Req, Res any] struct {
	sender[Res]
	receive func() (*Req, error)
}

// Recv implements [grpc.BidiStreamingServer].
func (e *exchange[Req, Res]) Recv() (*Req, error) { return e.receive() }
