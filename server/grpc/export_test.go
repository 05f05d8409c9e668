package grpcserver

import "google.golang.org/grpc"

// RegisterService adds a service. Call it before the first Serve.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.grpc.RegisterService(desc, impl)
}
