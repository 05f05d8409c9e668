package grpcserver

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/toold-dev/toold/server/access"
)

// unary passes a request with one response to the service.
func (s *Server) unary(ctx context.Context, message any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	err = s.cfg.Service.Serve(ctx, credentialOf(ctx), info.FullMethod, message, func(ctx context.Context) (err error) {
		response, err = handler(ctx, message)
		return err
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// stream passes a streaming request to the service.
func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx := ss.Context()
	return s.cfg.Service.Serve(ctx, credentialOf(ctx), info.FullMethod, nil, func(ctx context.Context) error {
		return handler(srv, &streamWithContext{ss, ctx})
	})
}

// streamWithContext is a stream with the context that the interceptors derived.
type streamWithContext struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements [grpc.ServerStream].
func (s *streamWithContext) Context() context.Context { return s.ctx }

// credentialOf returns the credential of a request: its header, and the client certificate or the local user of its connection.
func credentialOf(ctx context.Context) access.Credential {
	c := access.Credential{Authorization: metadata.ValueFromIncomingContext(ctx, "authorization")}
	if p, ok := peer.FromContext(ctx); ok {
		switch info := p.AuthInfo.(type) {
		case peerInfo:
			c.UID, c.Local = info.uid, true
		case credentials.TLSInfo:
			if chains := info.State.VerifiedChains; len(chains) > 0 {
				c.Certificate = chains[0][0]
			}
		}
	}
	return c
}
