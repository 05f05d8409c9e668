package grpcserver

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/toold-dev/toold/server/service"
)

// A Standby answers clients while the daemon waits for its store, which another daemon owns. Its health is NOT_SERVING, and every other
// method returns UNAVAILABLE. Stop leaves the listeners open, because the daemon uses them next.
type Standby struct {
	tls *tls.Config

	mu        sync.Mutex
	stops     []func()
	listeners []deadlined
	serving   sync.WaitGroup
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
	s.serveOn(lis, srv.Serve, srv.Stop)
}

// ServeWeb serves HTTP on a listener until Stop.
func (s *Standby) ServeWeb(lis net.Listener, srv *http.Server) {
	serve := srv.Serve
	if srv.TLSConfig != nil {
		serve = func(lis net.Listener) error { return srv.ServeTLS(lis, "", "") }
	}
	s.serveOn(lis, serve, func() { _ = srv.Close() }) // Ignore the error: there is no other way to close the connection.
}

func (s *Standby) serveOn(lis net.Listener, serve func(net.Listener) error, stop func()) {
	listener := deadlined{lis}
	s.mu.Lock()
	s.stops = append(s.stops, stop)
	s.listeners = append(s.listeners, listener)
	s.mu.Unlock()
	s.serving.Go(func() { _ = serve(listener) }) // Ignore the error: the daemon uses the same listener next and will report it.
}

// Stop closes all connections. The listeners stay open for the server.
func (s *Standby) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stop := range s.stops {
		stop()
	}
	s.serving.Wait()
	for _, lis := range s.listeners {
		_ = lis.acceptUntil(time.Time{}) // This fails only when the listener is closed, which the daemon will report.
	}
	s.stops, s.listeners = nil, nil
}

func refuseStandby(any, grpc.ServerStream) error { return service.StandbyError() }

// A deadlined listener stays open when Close is called. Close only sets a deadline that has passed, so that Accept returns.
type deadlined struct{ net.Listener }

// Close implements [net.Listener].
func (l deadlined) Close() error { return l.acceptUntil(time.Unix(1, 0)) }

// acceptUntil sets the deadline of Accept. The zero time means no deadline.
func (l deadlined) acceptUntil(t time.Time) error {
	if d, ok := l.Listener.(interface{ SetDeadline(t time.Time) error }); ok {
		return d.SetDeadline(t)
	}
	return nil
}
