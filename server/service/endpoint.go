package service

import (
	"context"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/server/access"
)

// Unary serves a request of an endpoint that does not use gRPC. f is the method of a service, and name is its full name. The context holds
// the credential of the client; see [access.WithCredential]. The response may be only encodable; see [Readable].
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

// Readable returns a copy of a response whose fields can be read. The messages of package translate may hold their content in encoded form.
func Readable[M proto.Message](m M) (M, error) {
	out := m.ProtoReflect().New().Interface().(M)
	return out, transfer(out, m)
}

// Out is where the responses of a stream go.
type Out[Res any] struct {
	Send func(*Res) error // sends one response, which may be only encodable; see [Readable]
	// Abort ends a Send that waits for the client. The service calls it when the stream ends while a Send is in progress.
	Abort func()
	// Apart sends each response in a separate goroutine. Encoding needs a deep stack, which the goroutine of an idle stream would keep: 8
	// KB for each stream.
	Apart bool
}

// Stream serves a streaming request of an endpoint that does not use gRPC, like [Unary]. When it has returned, no Send is in progress.
func Stream[Req, Res any](ctx context.Context, s *Service, name string, f func(*Req, grpc.ServerStreamingServer[Res]) error, req *Req, out Out[Res]) error {
	return s.Serve(ctx, access.CredentialFrom(ctx), name, nil, func(ctx context.Context) error {
		o := &sender[Res]{ctx: ctx, out: out}
		defer o.end()
		return f(req, o)
	})
}

// In is where the messages of a client come from.
type In[Req any] struct {
	Receive func() (*Req, error) // returns the next message
	// Abort ends a Receive that waits for the client. The service calls it when the stream ends while a Receive is in progress.
	Abort func()
}

// Bidi serves a request whose client and server send messages independently, like [Stream]. When it has returned, no Receive is in progress
// either.
func Bidi[Req, Res any](ctx context.Context, s *Service, name string, f func(grpc.BidiStreamingServer[Req, Res]) error, in In[Req], out Out[Res]) error {
	return s.Serve(ctx, access.CredentialFrom(ctx), name, nil, func(ctx context.Context) error {
		e := &exchange[Req, Res]{sender: sender[Res]{ctx: ctx, out: out}, in: in}
		defer e.end()
		return f(e)
	})
}

// A sender is the stream that a method of a service sends its responses to.
type sender[Res any] struct {
	grpc.ServerStream // nil: methods use only the methods below
	ctx               context.Context
	out               Out[Res]

	sending sync.Mutex // held while a response is sent
	ended   bool       // guarded by sending
}

// Context implements [grpc.ServerStream].
func (s *sender[Res]) Context() context.Context { return s.ctx }

// Send implements [grpc.ServerStreamingServer].
func (s *sender[Res]) Send(res *Res) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.ended {
		return io.ErrClosedPipe
	}
	if !s.out.Apart {
		return s.out.Send(res)
	}
	done := make(chan error, 1)
	go func() { // returns when the response is sent, or when Abort ends it
		defer func() {
			if r := recover(); r != nil {
				done <- fmt.Errorf("panic: %v", r) // the interceptors cannot recover a panic in this goroutine
			}
		}()
		done <- s.out.Send(res)
	}()
	return <-done
}

// end ends the response that is being sent, and refuses later ones.
func (s *sender[Res]) end() {
	if !s.sending.TryLock() {
		s.out.Abort()
		s.sending.Lock()
	}
	s.ended = true
	s.sending.Unlock()
}

// An exchange is a sender that also receives the messages of the client.
type exchange[Req, Res any] struct {
	sender[Res]
	in In[Req]

	receiving sync.Mutex // held while a message is received
	left      bool       // guarded by receiving
}

// Recv implements [grpc.BidiStreamingServer].
func (e *exchange[Req, Res]) Recv() (*Req, error) {
	e.receiving.Lock()
	defer e.receiving.Unlock()
	if e.left {
		return nil, io.ErrClosedPipe
	}
	return e.in.Receive()
}

// end ends both directions. The endpoint may free the request after it.
func (e *exchange[Req, Res]) end() {
	e.sender.end()
	if !e.receiving.TryLock() {
		e.in.Abort()
		e.receiving.Lock()
	}
	e.left = true
	e.receiving.Unlock()
}
