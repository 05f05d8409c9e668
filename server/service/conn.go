package service

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
)

// Conn returns a connection for clients inside the daemon. Each request has the credential of its context; see [access.WithCredential].
// Metadata has no effect. Streams in which the client sends more than one message are not supported.
func (s *Service) Conn() grpc.ClientConnInterface {
	c := &conn{service: s, unary: map[string]unaryMethod{}, streams: map[string]streamMethod{}}
	c.add(&tooldv1.CallService_ServiceDesc, s.Calls)
	c.add(&tooldv1.ToolService_ServiceDesc, s.Tools)
	c.add(&tooldv1.DocumentService_ServiceDesc, s.Documents)
	c.add(&tooldv1.AdminService_ServiceDesc, s.Admin)
	return c
}

type conn struct {
	service *Service
	unary   map[string]unaryMethod
	streams map[string]streamMethod
}

type unaryMethod struct {
	grpc.MethodDesc
	server any
}

type streamMethod struct {
	grpc.StreamDesc
	server any
}

func (c *conn) add(d *grpc.ServiceDesc, server any) {
	for _, m := range d.Methods {
		c.unary["/"+d.ServiceName+"/"+m.MethodName] = unaryMethod{m, server}
	}
	for _, m := range d.Streams {
		if !m.ClientStreams {
			c.streams["/"+d.ServiceName+"/"+m.StreamName] = streamMethod{m, server}
		}
	}
}

func unsupported(name string) error {
	return status.Errorf(codes.Unimplemented, "%s is not served inside the daemon", name)
}

// Invoke implements [grpc.ClientConnInterface].
func (c *conn) Invoke(ctx context.Context, name string, args, reply any, _ ...grpc.CallOption) error {
	m, ok := c.unary[name]
	if !ok {
		return unsupported(name)
	}
	decode := func(into any) error { return transfer(into, args) }
	res, err := m.Handler(m.server, ctx, decode, func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (res any, err error) {
		err = c.service.Serve(ctx, access.CredentialFrom(ctx), name, req, func(ctx context.Context) (err error) {
			res, err = handler(ctx, req)
			return err
		})
		return res, err
	})
	if err == nil {
		return transfer(reply, res)
	}
	return err
}

// transfer copies a message by encoding and decoding it, because the message may hold its content only in encoded form.
func transfer(to, from any) error {
	encoded, err := proto.Marshal(from.(proto.Message))
	if err != nil {
		return err
	}
	return proto.Unmarshal(encoded, to.(proto.Message))
}

// NewStream implements [grpc.ClientConnInterface]. The stream ends when ctx ends, or when the client has read it to its end.
func (c *conn) NewStream(ctx context.Context, _ *grpc.StreamDesc, name string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	m, ok := c.streams[name]
	if !ok {
		return nil, unsupported(name)
	}
	return &clientStream{ctx: ctx, start: func(p *pipe) error {
		return c.service.Serve(ctx, access.CredentialFrom(ctx), name, nil, func(ctx context.Context) error {
			return m.Handler(m.server, &serverStream{ctx: ctx, pipe: p})
		})
	}}, nil
}

// A pipe carries the messages of one stream.
type pipe struct {
	request   proto.Message
	responses chan proto.Message
	ended     chan struct{} // closed after err is set
	err       error
}

// clientStream is the side of a stream that the client uses.
type clientStream struct {
	ctx   context.Context
	start func(*pipe) error
	pipe  *pipe
}

// SendMsg implements [grpc.ClientStream]. It starts the request.
func (s *clientStream) SendMsg(m any) error {
	if s.pipe != nil {
		return status.Error(codes.Internal, "a stream inside the daemon takes one request")
	}
	p := &pipe{request: proto.Clone(m.(proto.Message)), responses: make(chan proto.Message), ended: make(chan struct{})}
	s.pipe = p
	go func() { // The goroutine returns at the latest when the context of the client ends.
		defer close(p.ended)
		p.err = s.start(p)
	}()
	return nil
}

// RecvMsg implements [grpc.ClientStream].
func (s *clientStream) RecvMsg(m any) error {
	if s.pipe == nil {
		return status.Error(codes.Internal, "no request was sent")
	}
	select {
	case res := <-s.pipe.responses:
		return transfer(m, res)
	case <-s.pipe.ended:
		if s.pipe.err == nil {
			return io.EOF
		}
		return s.pipe.err
	}
}

// Header implements [grpc.ClientStream].
func (*clientStream) Header() (metadata.MD, error) { return nil, nil }

// Trailer implements [grpc.ClientStream].
func (*clientStream) Trailer() metadata.MD { return nil }

// CloseSend implements [grpc.ClientStream].
func (*clientStream) CloseSend() error { return nil }

// Context implements [grpc.ClientStream].
func (s *clientStream) Context() context.Context { return s.ctx }

// serverStream is the side of a stream that the daemon uses.
type serverStream struct {
	grpc.ServerStream // nil: methods use only the methods below
	ctx               context.Context
	pipe              *pipe
}

// Context implements [grpc.ServerStream].
func (s *serverStream) Context() context.Context { return s.ctx }

// RecvMsg implements [grpc.ServerStream].
func (s *serverStream) RecvMsg(m any) error {
	if s.pipe.request == nil {
		return io.EOF
	}
	proto.Merge(m.(proto.Message), s.pipe.request)
	s.pipe.request = nil
	return nil
}

// SendMsg implements [grpc.ServerStream].
func (s *serverStream) SendMsg(m any) error {
	res, ok := m.(proto.Message)
	if !ok {
		return errors.New("the message is not a protobuf message")
	}
	select {
	case s.pipe.responses <- res:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}
