package grpcserver_test

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	grpcserver "github.com/toold-dev/toold/server/grpc"
)

// flooded is the method that the tests call in a flood. It is a streaming method, so the server counts its requests before their message
// arrives.
const flooded = tooldv1.CallService_WatchCalls_FullMethodName

// frame returns an encoded HTTP/2 frame.
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	return append([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}, payload...)
}

// requests encodes n new streams, beginning with the stream id first. Each has the token, unless token is empty. If reset is set, each
// stream is reset at once; otherwise it gets a message.
func requests(first, n uint32, reset bool, token string) (b []byte) {
	text := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	headers := slices.Concat([]byte{0x83, 0x86, 0x04}, text(flooded), []byte{0x01}, text("x"), []byte{0x0f, 0x10}, text("application/grpc"), []byte{0x00}, text("te"), text("trailers"))
	if token != "" {
		headers = slices.Concat(headers, []byte{0x0f, 0x08}, text("Bearer "+token))
	}
	for i := range n {
		id := 2*(first+i) + 1
		b = append(b, frame(1, 4, id, headers)...)
		if reset {
			b = append(b, frame(3, 0, id, []byte{0, 0, 0, 8})...)
		} else {
			b = append(b, frame(0, 1, id, make([]byte, 5))...) // an empty message
		}
	}
	return b
}

// guest opens an HTTP/2 connection without a credential.
func guest(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = conn.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(4, 0, 0, nil)...))
	must(t, err)
	return conn
}

// flood begins and resets 40,000 streams. It stops when the connection ends or done is closed, and discards what the server sends.
func flood(conn net.Conn, done <-chan struct{}) {
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	for first := uint32(0); first < 40_000; first += 200 {
		select {
		case <-done:
			return
		default:
		}
		if _, err := conn.Write(requests(first, 200, true, "")); err != nil {
			return
		}
	}
}

// TestT119GuestsBeginFewStreams checks a connection without a credential that begins and resets many streams. The server disconnects it
// after a few of them.
func TestT119GuestsBeginFewStreams(t *testing.T) {
	w := newWorld(t, options{transport: func(c *grpcserver.Config) { c.GuestTime = 2 * time.Second }})
	conn := guest(t, w.tcp)
	flood(conn, nil) // flood returns when the server disconnects the client.
	if n := begun(w); n > grpcserver.GuestStreams {
		t.Errorf("a guest began %d streams", n)
	}
	// These requests are complete, and the server refuses them.
	conn = guest(t, w.tcp)
	_, _ = conn.Write(requests(0, 2000, false, "")) // Ignore the error: the server may disconnect meanwhile.
	must(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a guest whose streams were all refused was not ended")
	}
	if n := begun(w); n > 2*grpcserver.GuestStreams {
		t.Errorf("two guests began %d streams", n)
	}
}

// TestT119GuestsAreFew checks that the server disconnects the oldest guest when there are too many. A client with a credential can
// therefore always connect.
func TestT119GuestsAreFew(t *testing.T) {
	w := newWorld(t, options{transport: func(c *grpcserver.Config) { c.GuestTime = time.Hour }}) // no guest reaches its time limit
	const conns = grpcserver.GuestConnections + 100
	var open sync.WaitGroup
	ended := make(chan struct{}, conns)
	for range conns {
		conn := guest(t, w.tcp)
		open.Go(func() {
			_, _ = io.Copy(io.Discard, conn)
			ended <- struct{}{}
		})
	}
	for range 100 {
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("more guests than there may be stay")
		}
	}
	_, err := tooldv1.NewAdminServiceClient(dial(t, w.tcp, tokenOf("alice"))).GetInfo(within(t), &tooldv1.GetInfoRequest{})
	must(t, err)
}

// TestT119FirstStreamsOfAClient checks a client with a credential that begins more streams at once than a guest may begin. It sends the
// messages of the streams last, so that the server has read the headers of all streams before the first message arrives.
func TestT119FirstStreamsOfAClient(t *testing.T) {
	for name, size := range map[string]int{"small": 0, "large": 900 << 10} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, options{})
			c := tooldv1.NewCallServiceClient(dial(t, w.tcp, tokenOf("alice")))
			arguments := `{"text":"` + strings.Repeat("x", size) + `"}`
			var all sync.WaitGroup
			for range 2 * grpcserver.GuestStreams {
				all.Go(func() {
					if _, err := c.DescribeCall(within(t), &tooldv1.DescribeCallRequest{Spec: &tooldv1.CallSpec{Tool: "echo", Arguments: arguments}}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		})
	}
}

// TestT119ResetsOfAClientAreFew checks a client with a credential that resets many streams on one connection. A burst of resets is served
// at once. After that, the server delays requests, so that it serves a limited number each second.
func TestT119ResetsOfAClientAreFew(t *testing.T) {
	w := newWorld(t, options{})
	const resets, atOnce = 1500, 1000
	conn := guest(t, w.tcp)
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	began := time.Now()
	_, err := conn.Write(requests(0, resets, true, tokenOf("alice")))
	must(t, err)
	eventually(t, "each stream begins", func() bool { return begun(w) == resets })
	// Leave out one reset: the last stream begins before it is reset, so the delay of its reset is not measured.
	if took, least := time.Since(began), time.Second*(resets-atOnce-1)/grpcserver.ResetsEach; took < least {
		t.Errorf("%d streams were begun and reset within %v, want at least %v", resets, took, least)
	}
}

// begun returns how many requests of the flooded method have begun.
func begun(w *world) (n int64) {
	m := w.service.Stats()[flooded]
	for _, ended := range m.Ended {
		n += ended
	}
	return n + m.Running
}
