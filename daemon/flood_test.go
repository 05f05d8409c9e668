package daemon

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	grpcserver "github.com/toold-dev/toold/server/grpc"
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// frame returns an encoded HTTP/2 frame.
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	return append([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}, payload...)
}

// openStreams returns the start of an HTTP/2 connection with n streams. They have no credential, never end, and have 8 KB of headers each.
func openStreams(n uint32) []byte {
	text := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	headers := slices.Concat([]byte{0x83, 0x86, 0x04}, text("/toold.v1.AdminService/GetInfo"), []byte{0x01}, text("x"), []byte{0x0f, 0x10}, text("application/grpc"))
	const size = 8 << 10 // length of a header value; HPACK encodes it as 127, followed by the rest in groups of seven bits
	headers = slices.Concat(headers, []byte{0x00}, text("x-large"), []byte{0x7f, (size-127)&0x7f | 0x80, (size - 127) >> 7}, make([]byte, size))
	for i := range size {
		headers[len(headers)-1-i] = 'x'
	}
	b := append([]byte(preface), frame(4, 0, 0, nil)...)
	for i := range n {
		b = append(b, frame(1, 4, 2*i+1, headers)...)
	}
	return b
}

// TestT119FloodLeavesOthersServed checks a flood of clients without a credential. They open more connections than the daemon has file
// descriptors, and begin 100 large streams on most of them. The daemon uses little memory for them, and serves clients with a credential,
// both connected and new ones.
func TestT119FloodLeavesOthersServed(t *testing.T) {
	p := newPluginSite(t, "metrics: {listen: '127.0.0.1:0'}\n").p
	info, err := p.admin.GetInfo(within(t), &tooldv1.GetInfoRequest{})
	must(t, err)
	l := info.GetLimits()
	if l.GetGuestConnections() != grpcserver.GuestConnections || l.GetGuestStreams() != grpcserver.GuestStreams || l.GetGuestTime().AsDuration() != 10*time.Second || l.GetResetsEachSecond() != grpcserver.ResetsEach {
		t.Errorf("GetInfo shows other bounds: %v", l)
	}

	const files, attackers = 300, 480
	var old unix.Rlimit
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	must(t, err)
	must(t, unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &old))
	must(t, unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open)) + files, Max: old.Max}, nil))

	quiet := scrape(t, p)
	stop := make(chan struct{})
	var attack, begun sync.WaitGroup
	defer attack.Wait()
	defer close(stop)
	kinds := [][]byte{nil, openStreams(0), openStreams(100), openStreams(0), []byte(preface[:12]), openStreams(100), openStreams(0), openStreams(100)}
	for i := range attackers {
		begun.Add(1)
		attack.Go(func() { insist(p.ready.TCP, kinds[i%len(kinds)], sync.OnceFunc(begun.Done), stop) })
	}
	begun.Wait()
	for range 10 {
		eventually(t, "a new client with a credential is served", func() bool { // Try again: the flood may make the daemon end this connection before its first request.
			conn, err := grpc.NewClient(p.ready.TCP, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(p.token())))
			must(t, err)
			defer conn.Close()
			_, err = tooldv1.NewAdminServiceClient(conn).GetInfo(within(t), &tooldv1.GetInfoRequest{}, grpc.WaitForReady(true))
			return err == nil
		})
		if _, err := p.admin.GetInfo(within(t), &tooldv1.GetInfoRequest{}); err != nil {
			t.Fatalf("a client that was connected before: %v", err)
		}
	}
	eventually(t, "the flood takes at most 64 MiB", func() bool { // Try again: the value includes garbage that is not collected yet.
		return scrape(t, p)["toold_heap_bytes"]-quiet["toold_heap_bytes"] <= 64<<20
	})
	const each = grpcserver.GuestStreams + 4 // goroutines for each connection: one for each stream, and a few for the connection itself
	if n, most := int(scrape(t, p)["toold_goroutines"]-quiet["toold_goroutines"]), grpcserver.GuestConnections*each+100; n > most {
		t.Errorf("the flood takes %d goroutines, want at most %d", n, most)
	}
}

// insist opens a connection, sends the bytes and waits. It connects again one second after the daemon ends the connection.
func insist(address string, payload []byte, begun func(), stop <-chan struct{}) {
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			cut := make(chan struct{})
			go func() {
				defer close(cut)
				_, _ = io.Copy(io.Discard, conn)
			}()
			_, _ = conn.Write(payload) // may block or fail, because the daemon stops reading or ends the connection
			begun()
			select {
			case <-cut:
			case <-stop:
			}
			conn.Close()
			<-cut
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Second):
		}
	}
}
