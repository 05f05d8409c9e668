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

// ListenTCP listens on host:port. Beyond the loopback interface it refuses without TLS; a token is needed on TCP in any
// case.
func ListenTCP(ctx context.Context, address string, secure bool) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", address, err)
	}
	if !at.IP.IsLoopback() && !secure {
		return nil, fmt.Errorf("listen on %q: beyond loopback TLS is required; give a certificate and a key, or listen on 127.0.0.1", address)
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", at.String()) // what was looked at, not the name
}

// ListenUnix listens on a socket that only the daemon's user can open. A socket that nobody answers at is replaced.
func ListenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := clear(ctx, path); err != nil {
		return nil, fmt.Errorf("listen on %q: %w", path, err)
	}
	var lc net.ListenConfig
	lis, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	// Until here the mode is the umask's; who comes in meanwhile is still asked by the kernel who it is.
	if err := os.Chmod(path, 0o600); err != nil {
		lis.Close()
		return nil, err
	}
	return lis, nil
}

func clear(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("there is something else than a socket")
	}
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		conn.Close()
		return errors.New("somebody answers there already")
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

// door makes the transport's part of authentication: the kernel's word on unix sockets, TLS or nothing elsewhere.
type door struct {
	credentials.TransportCredentials // of TCP
	auth                             *access.Auth
	lobby                            *lobby
}

func newDoor(auth *access.Auth, tls credentials.TransportCredentials, guestTime time.Duration) *door {
	if tls == nil {
		tls = insecure.NewCredentials()
	}
	return &door{tls, auth, &lobby{time: guestTime}}
}

// ServerHandshake implements [credentials.TransportCredentials]. A user that is not let in is told so by each request: a
// closed connection would say nothing.
func (d *door) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		g := d.lobby.guard(conn)
		secured, info, err := d.TransportCredentials.ServerHandshake(conn)
		if err != nil {
			_ = g.Close() // the handshake says what is wrong
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
	if !d.auth.KnowsPeer(uid) {
		conn = d.lobby.guard(conn)
	}
	return conn, peerInfo{
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		uid:            uid,
	}, nil
}

// Clone implements [credentials.TransportCredentials].
func (d *door) Clone() credentials.TransportCredentials {
	return &door{d.TransportCredentials.Clone(), d.auth, d.lobby}
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
