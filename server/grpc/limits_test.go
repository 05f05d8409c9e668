package grpcserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	grpcserver "github.com/toold-dev/toold/server/grpc"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/tool"
)

// TestT72Limits (T72) checks that the server refuses requests that exceed a limit, and that it serves other clients meanwhile.
func TestT72Limits(t *testing.T) {
	w := newWorld(t, options{transport: func(c *grpcserver.Config) { c.MaxStreams = 100 }})
	served := func(t *testing.T) {
		t.Helper()
		for range 20 {
			_, err := w.calls("bob").CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "talk"}})
			must(t, err)
		}
	}
	t.Run("a message of 5 MiB", func(t *testing.T) {
		_, err := w.calls("alice").CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "echo", Arguments: strings.Repeat("x", 5<<20)}})
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("got %v", err)
		}
		served(t)
	})
	t.Run("arguments of 2 MiB", func(t *testing.T) {
		_, err := w.calls("alice").CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "echo", Arguments: strings.Repeat("x", 2<<20)}})
		wantRefusal(t, err, codes.InvalidArgument, "INVALID_FIELD")
	})
	t.Run("metadata of 1 MiB", func(t *testing.T) {
		c := dial(t, w.tcp, tokenOf("alice")) // Use a separate connection, because the server closes it.
		ctx := metadata.AppendToOutgoingContext(within(t), "x-much", strings.Repeat("x", 1<<20))
		if _, err := tooldv1.NewAdminServiceClient(c).GetInfo(ctx, &tooldv1.GetInfoRequest{}); err == nil {
			t.Error("was taken")
		}
		served(t)
	})
	t.Run("10,000 streams", func(t *testing.T) {
		c := tooldv1.NewCallServiceClient(dial(t, w.tcp, tokenOf("vera")))
		flood, stop := context.WithCancel(context.Background())
		var streams sync.WaitGroup
		for range 10_000 {
			streams.Go(func() {
				s, err := c.WatchCalls(flood, &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}, Follow: true})
				for err == nil {
					_, err = s.Recv()
				}
			})
		}
		served(t)
		if open := w.service.Stats()["/toold.v1.CallService/WatchCalls"].Running; open > 100 {
			t.Errorf("%d streams of one connection are open", open)
		}
		stop()
		streams.Wait()
		served(t)
	})
	t.Run("streams that are reset at once", func(t *testing.T) {
		c := tooldv1.NewCallServiceClient(dial(t, w.tcp, tokenOf("vera")))
		for range 5000 {
			ctx, cancel := context.WithCancel(context.Background())
			if _, err := c.WatchCalls(ctx, &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}, Follow: true}); err != nil {
				t.Log(err) // An error is possible, because the server may have closed the connection.
			}
			cancel()
		}
		served(t)
	})
	t.Run("frames that nobody asked for", func(t *testing.T) {
		continuationFlood(t, w.tcp)
		served(t)
	})
}

// continuationFlood sends headers of one request that never end.
func continuationFlood(t *testing.T, address string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
	_, err = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	must(t, err)
	_, err = conn.Write([]byte{0, 0, 0, 1, 0, 0, 0, 0, 1}) // HEADERS without END_HEADERS
	must(t, err)
	chunk := make([]byte, 9+16000) // a CONTINUATION frame with literal headers that are never indexed
	copy(chunk, []byte{0, 0x3e, 0x80, 9, 0, 0, 0, 0, 1})
	for i := range 16000 / 4 {
		copy(chunk[9+4*i:], []byte{0x10, 1, 'a', 0})
	}
	for range 2000 { // 32 MB in total
		if _, err := conn.Write(chunk); err != nil {
			return // the server cut the connection, as expected
		}
	}
	t.Error("32 MB of headers were read")
}

func dial(t *testing.T, address, token string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(token)))
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// badEngine returns errors that a correct engine never returns.
type badEngine struct{ service.Engine }

func (badEngine) Get(ctx context.Context, _ tool.Principal, id string) (*call.Call, error) {
	switch id {
	case "panic":
		panic("a bug with a secret")
	case "slow":
		<-ctx.Done()
		return nil, errors.New("interrupted")
	case "wordy":
		r := call.Refuse(call.InvalidArgument, "WORDY", "%s", strings.Repeat("ü", 1<<20))
		for range 1000 {
			r.Violations = append(r.Violations, tool.Violation{Field: "x", Description: strings.Repeat("y", 700)})
		}
		return nil, r
	case "busy":
		return nil, call.Refuse(call.ResourceExhausted, "QUEUE_FULL", "too many")
	case "later":
		return nil, &call.Refusal{Kind: call.Unavailable, Reason: "DRAINING", Message: "stopping", RetryAfter: 7 * time.Second}
	}
	return nil, errors.New("disk sda: a secret")
}

// TestErrors checks that the details of an internal error are only in the log. The client gets an id with which the log line can be found.
// A refusal because of missing capacity says when to retry.
func TestErrors(t *testing.T) {
	core, logged := observer.New(zapcore.ErrorLevel)
	w := newWorld(t, options{log: zap.New(core), config: func(c *service.Config) { c.Engine = badEngine{c.Engine} }})
	get := func(id string) *status.Status {
		_, err := w.calls("alice").GetCall(within(t), &tooldv1.GetCallRequest{CallId: id})
		return status.Convert(err)
	}
	for _, id := range []string{"panic", "other"} {
		st := get(id)
		if st.Code() != codes.Internal || strings.Contains(st.Message(), "secret") {
			t.Errorf("%s: %v", id, st)
		}
		info, ok := st.Details()[0].(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != "toold" || info.GetReason() != "INTERNAL" {
			t.Fatalf("%s: details %v", id, st.Details())
		}
		found := logged.FilterField(zap.String("error_id", info.GetMetadata()["error_id"])).All()
		if len(found) != 1 || !strings.Contains(found[0].ContextMap()["error"].(string), "secret") {
			t.Errorf("%s: the log has %v under the id", id, found)
		}
	}
	if st := get("wordy"); proto.Size(st.Proto()) > 5<<10 || !strings.HasPrefix(st.Message(), "üüü") || len(st.Details()) != 2 {
		t.Errorf("what is long to say takes %d bytes of the trailers: %.100s", proto.Size(st.Proto()), st.Message())
	}
	for id, want := range map[string]time.Duration{"busy": time.Second, "later": 7 * time.Second} {
		var delay time.Duration
		for _, d := range get(id).Details() {
			if r, ok := d.(*errdetails.RetryInfo); ok {
				delay = r.GetRetryDelay().AsDuration()
			}
		}
		if delay != want {
			t.Errorf("%s: come back after %v, want %v", id, delay, want)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.calls("alice").GetCall(ctx, &tooldv1.GetCallRequest{CallId: "slow"}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("out of time: %v", err)
	}
	w.stop() // After this, all requests are counted.
	if n := logged.Len(); n != 2 {
		t.Errorf("%d errors in the log; who left is none", n)
	}
	stats := w.service.Stats()["/toold.v1.CallService/GetCall"]
	if stats.Running != 0 || stats.Ended[codes.Internal] != 2 || stats.Ended[codes.ResourceExhausted] != 1 || stats.Ended[codes.Unavailable] != 1 {
		t.Errorf("counted %+v", stats)
	}
}

// TestTLS checks that, with certificate files, the TCP listener accepts only TLS 1.2 or later.
func TestTLS(t *testing.T) {
	cert := selfSigned(t)
	w := newWorld(t, options{transport: func(c *grpcserver.Config) {
		c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS10}
	}})
	info := func(c credentials.TransportCredentials) error {
		conn, err := grpc.NewClient(w.tcp, grpc.WithTransportCredentials(c), grpc.WithPerRPCCredentials(bearer(tokenOf("vera"))))
		must(t, err)
		defer conn.Close()
		_, err = tooldv1.NewAdminServiceClient(conn).GetInfo(within(t), &tooldv1.GetInfoRequest{})
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	must(t, info(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "localhost"})))
	if err := info(insecure.NewCredentials()); err == nil {
		t.Error("served without TLS")
	}
	if err := info(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})); err == nil {
		t.Error("served with TLS 1.1")
	}
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	leaf, err := x509.ParseCertificate(der)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
