package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/sandbox/helper"
)

// ProxyPort is the loopback port on which the [Gateway] listens inside the network of a process with [NetworkProxy]. Each process has a
// separate network, so all can use the same port.
const ProxyPort = 3128

// A Gateway is the only way out of the network of a process with [NetworkProxy]. The package sandbox/proxy implements it.
type Gateway interface {
	// Serve handles the requests of one run's processes, as the policy allows. l is a listener in the network of the run. Serve returns
	// soon after ctx is done. After that, no goroutine or connection of Serve remains.
	Serve(ctx context.Context, tag string, policy *Policy, l net.Listener)
}

// proxied returns the environment variables that make programs use the proxy. Loopback addresses bypass it.
func proxied() []string {
	at := fmt.Sprintf("http://127.0.0.1:%d", ProxyPort)
	const own = "localhost,127.0.0.1,::1"
	return []string{
		"HTTP_PROXY=" + at, "HTTPS_PROXY=" + at, "http_proxy=" + at, "https_proxy=" + at, // Both spellings are set, because some programs read only one; for example, curl reads only the lower-case http_proxy.
		"NO_PROXY=" + own, "no_proxy=" + own, "NODE_USE_ENV_PROXY=1",
	}
}

// environment returns the environment of a new process: the given variables. With NetworkProxy, the variables of the proxy take precedence,
// and ALL_PROXY is dropped.
func (p *Policy) environment(given []string) []string {
	if p.Network != NetworkProxy {
		return slices.Clip(given)
	}
	env := proxied()
	for _, pair := range given {
		name, _, _ := strings.Cut(pair, "=")
		if !slices.ContainsFunc(env, func(own string) bool { return strings.HasPrefix(own, name+"=") }) && strings.ToUpper(name) != "ALL_PROXY" {
			env = append(env, pair)
		}
	}
	return env
}

// A gate connects one run with the gateway.
type gate struct {
	socket *net.UnixConn // the daemon's end; the helper sends the listener through the other end
	stop   context.CancelFunc
	ready  chan error    // gets one value: nil when the gateway serves, or an error
	served chan struct{} // nil until begin is called
}

// openGate creates the socket through which the helper sends the listener of a run. It returns the gate and the helper's end.
func (r *Runner) openGate() (*gate, *os.File, error) {
	if r.gateway == nil {
		return nil, nil, &RefusedError{Fact: "net", Step: "network: proxy", Err: errors.New("no gateway is configured")}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, its := os.NewFile(uintptr(pair[0]), "gate"), os.NewFile(uintptr(pair[1]), "gate")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		its.Close()
		return nil, nil, err
	}
	return &gate{socket: conn.(*net.UnixConn), ready: make(chan error, 1)}, its, nil
}

// begin starts the gateway as soon as the helper has sent the listener. The helper sends it before it starts the command.
func (g *gate) begin(gateway Gateway, spec *Spec) {
	ctx, stop := context.WithCancel(context.Background())
	g.stop, g.served = stop, make(chan struct{})
	go func() {
		defer close(g.served)
		l, err := g.listener()
		if err != nil {
			err = fmt.Errorf("network: proxy: %w", err)
		}
		g.ready <- err
		if err == nil {
			defer l.Close()
			gateway.Serve(ctx, spec.Tag, spec.Policy, l)
		}
	}()
}

// listener returns the listener from the helper's only message. When the helper ends without a message, it returns an error.
func (g *gate) listener() (net.Listener, error) {
	data, rights := make([]byte, 8), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := g.socket.ReadMsgUnix(data, rights)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(errors.New("received no listener"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(errors.New("received no listener"), err)
	}
	file := os.NewFile(uintptr(fds[0]), "listener")
	defer file.Close()
	return net.FileListener(file)
}

// end stops the gateway's work for this run. It may be called several times.
func (g *gate) end() {
	if g == nil {
		return
	}
	g.socket.Close()
	if g.served != nil {
		g.stop()
		<-g.served
	}
}

// ask returns the HTTP request of a canary that asks the gateway for a connection to the address lure, a listener on the machine itself.
func ask(lure []byte) string {
	port := int(lure[2])<<8 | int(lure[3])
	return fmt.Sprintf("CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", port, port)
}

// closed reports whether the gateway refused the canary's request for the machine itself. Without a proxy, no request is possible, so it
// reports true.
func (p *Policy) closed(t *trial) (held bool, why string) {
	if p.Network != NetworkProxy {
		return true, ""
	}
	switch m := t.tried[helper.TryProxy]; {
	case m.Errno != 0 || m.Value > 999: // The proxy gave no answer, or an answer without an HTTP status.
		return false, "the proxy did not answer a canary"
	case m.Value != 403:
		return false, fmt.Sprintf("the proxy answered %d to a canary that requested the machine itself", m.Value)
	}
	return true, ""
}
