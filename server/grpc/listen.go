package grpcserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/toold-dev/toold/server/access"
)

// ListenTCP listens on host:port. Without TLS it refuses addresses other than loopback. Clients over TCP always need a token.
func ListenTCP(ctx context.Context, address string, secure bool) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", address, err)
	}
	if !at.IP.IsLoopback() && !secure {
		return nil, fmt.Errorf("listen on %q: an address other than loopback requires TLS; give a certificate and a key, or listen on 127.0.0.1", address)
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", at.String()) // Use the address that was checked: the name could resolve to another address now.
}

// ListenUnix listens on a unix socket. If shared is set, every user of the machine can open it; otherwise only the daemon's user can. It
// replaces a socket file on which no process listens.
func ListenUnix(ctx context.Context, path string, shared bool) (net.Listener, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, fmt.Errorf("listen on %q: %w", path, err)
	}
	var lc net.ListenConfig
	lis, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	// Before Chmod, the mode of the socket depends on the umask. That is safe, because the kernel reports the user of each connection.
	if err := os.Chmod(path, SocketMode(shared)); err != nil {
		lis.Close()
		return nil, err
	}
	return lis, nil
}

// SocketMode returns the mode of a unix socket. If shared is set, every user of the machine can open the socket; otherwise only the
// daemon's user can.
func SocketMode(shared bool) fs.FileMode {
	if shared {
		return 0o666
	}
	return 0o600
}

func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("the file is not a socket")
	}
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		conn.Close()
		return errors.New("another process listens there")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// peerInfo is the local user at the other end of a unix socket.
type peerInfo struct {
	credentials.CommonAuthInfo
	uid uint32
}

// AuthType implements [credentials.AuthInfo].
func (peerInfo) AuthType() string { return "peer" }

// transport handles the connection part of authentication. For a unix socket, the kernel reports the user. For TCP, it uses TLS or plain
// text.
type transport struct {
	credentials.TransportCredentials // credentials of the TCP listener
	auth                             *access.Auth
	guestList                        *guestList
}

func newTransport(auth *access.Auth, tls credentials.TransportCredentials, guestTime time.Duration) *transport {
	if tls == nil {
		tls = insecure.NewCredentials()
	}
	return &transport{tls, auth, &guestList{time: guestTime}}
}

// ServerHandshake implements [credentials.TransportCredentials]. It also accepts users without access, because only a response to their
// request can tell them the reason for the refusal.
func (t *transport) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		g := t.guestList.guard(conn)
		secured, info, err := t.TransportCredentials.ServerHandshake(conn)
		if err != nil {
			_ = g.Close() // Ignore this error, because the handshake error is returned.
			return nil, nil, err
		}
		g.Conn = secured
		return g, info, nil
	}
	uid, err := peerUID(local)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	if !t.auth.KnowsPeer(uid) {
		conn = t.guestList.guard(conn)
	}
	return conn, peerInfo{
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		uid:            uid,
	}, nil
}

// Clone implements [credentials.TransportCredentials].
func (t *transport) Clone() credentials.TransportCredentials {
	return &transport{t.TransportCredentials.Clone(), t.auth, t.guestList}
}

func peerUID(conn *net.UnixConn) (uint32, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	var sockErr error
	err = raw.Control(func(fd uintptr) {
		cred, sockErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, sockErr); err != nil {
		return 0, fmt.Errorf("peer of the unix socket: %w", err)
	}
	return cred.Uid, nil
}
