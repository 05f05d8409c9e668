package grpcserver

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/server/service"
)

// A Standby is the server of a daemon that waits for a store that another daemon owns. Its health is NOT_SERVING, and every other method
// returns UNAVAILABLE. It leaves the listeners open, because the daemon serves on them later.
type Standby struct {
	tls *tls.Config

	mu      sync.Mutex
	servers []*grpc.Server
	serving sync.WaitGroup
}

// NewStandby returns a Standby. secure configures TLS for TCP; nil means plain text.
func NewStandby(secure *tls.Config) *Standby { return &Standby{tls: secure} }

// Serve serves on a listener until Stop.
func (s *Standby) Serve(lis net.Listener) {
	creds := insecure.NewCredentials()
	if s.tls != nil && lis.Addr().Network() == "tcp" {
		creds = credentials.NewTLS(s.tls)
	}
	states := health.NewServer()
	for _, name := range services {
		states.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	}
	srv := grpc.NewServer(grpc.Creds(creds), grpc.UnknownServiceHandler(refuseStandby), grpc.ConnectionTimeout(10*time.Second), grpc.MaxRecvMsgSize(service.MaxMessage), grpc.MaxConcurrentStreams(GuestStreams))
	grpc_health_v1.RegisterHealthServer(srv, states)
	s.mu.Lock()
	s.servers = append(s.servers, srv)
	s.mu.Unlock()
	s.serving.Go(func() { _ = srv.Serve(&borrowed{Listener: lis}) }) // Ignore the error: the daemon uses the same listener next and will report it.
}

// Stop closes all connections. The listeners stay open for the server.
func (s *Standby) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, srv := range s.servers {
		srv.Stop()
	}
	s.serving.Wait()
	s.servers = nil
}

func refuseStandby(any, grpc.ServerStream) error {
	st, err := status.New(codes.Unavailable, "this daemon is on standby: another daemon owns the store").WithDetails(
		&errdetails.ErrorInfo{Reason: "STANDBY", Domain: service.Domain}, &errdetails.RetryInfo{RetryDelay: durationpb.New(service.DefaultRetry)})
	if err != nil {
		return err
	}
	return st.Err()
}

// A borrowed listener stays open when its user calls Close.
type borrowed struct {
	net.Listener
	once sync.Once
}

// deadlined is implemented by the listeners of the net package.
type deadlined interface{ SetDeadline(time.Time) error }

// Accept implements [net.Listener].
func (l *borrowed) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if d, ok := l.Listener.(deadlined); ok && err != nil {
		err = errors.Join(net.ErrClosed, d.SetDeadline(time.Time{}))
	}
	return conn, err
}

// Close implements [net.Listener]: it ends Accept and leaves the listener open.
func (l *borrowed) Close() (err error) {
	l.once.Do(func() {
		if d, ok := l.Listener.(deadlined); ok {
			err = d.SetDeadline(time.Unix(1, 0))
		}
	})
	return err
}
