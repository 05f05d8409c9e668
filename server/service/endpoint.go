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

// Unary serves a request of an endpoint that does not use gRPC. f is the method of a service, and name is its full name. The context holds the
// credential of the client; see [access.WithCredential]. The response may hold its content only in encoded form; see [Readable].
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

// Out receives the responses of a stream.
type Out[Res any] struct {
	Send func(*Res) error // Send sends one response. The response may hold its content only in encoded form; see [Readable].
	// Abort ends a Send that waits for the client. The service calls it when the stream ends while a Send is in progress.
	Abort func()
	// Apart means that each response is sent in a separate goroutine. Encoding needs a deep stack. Otherwise the goroutine of each idle
	// stream would keep such a stack, which takes 8 KB.
	Apart bool
}

// Stream serves a streaming request of an endpoint that does not use gRPC, like [Unary]. After Stream has returned, no Send is in progress.
func Stream[Req, Res any](ctx context.Context, s *Service, name string, f func(*Req, grpc.ServerStreamingServer[Res]) error, req *Req, out Out[Res]) error {
	return s.Serve(ctx, access.CredentialFrom(ctx), name, nil, func(ctx context.Context) error {
		o := &sender[Res]{ctx: ctx, out: out}
		defer o.end()
		return f(req, o)
	})
}

// In supplies the messages of a client.
type In[Req any] struct {
	Receive func() (*Req, error) // returns the next message
	// Abort ends a Receive that waits for the client. The service calls it when the stream ends while a Receive is in progress.
	Abort func()
}

// Bidi serves a request in which client and server send messages independently of each other, like [Stream]. After Bidi has returned,
// neither a Send nor a Receive is in progress.
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
	go func() { // The goroutine returns when the response is sent, or when Abort interrupts the send.
		defer func() {
			if r := recover(); r != nil {
				done <- fmt.Errorf("panic: %v", r) // Handle the panic here: the interceptors cannot recover a panic in this goroutine.
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
