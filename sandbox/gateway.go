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

// ProxyPort is where, on the loopback device of a process with [NetworkProxy], the [Gateway] listens. Nothing else has a port
// there yet, so it can be the same for all.
const ProxyPort = 3128

// A Gateway is the one way out of processes with [NetworkProxy]. The package sandbox/proxy has one.
type Gateway interface {
	// Serve answers what the processes of one run ask for, on a listener in their network, as the policy of the run says.
	// It returns soon after ctx is done, and nothing that it began continues after that.
	Serve(ctx context.Context, tag string, policy *Policy, l net.Listener)
}

// proxied are the variables by which programs find a proxy. Nothing that is on the loopback device itself goes through it.
func proxied() []string {
	at := fmt.Sprintf("http://127.0.0.1:%d", ProxyPort)
	const own = "localhost,127.0.0.1,::1"
	return []string{
		"HTTP_PROXY=" + at, "HTTPS_PROXY=" + at, "http_proxy=" + at, "https_proxy=" + at, // curl reads the small http_proxy alone
		"NO_PROXY=" + own, "no_proxy=" + own, "NODE_USE_ENV_PROXY=1",
	}
}

// environment is what a process is started with.
func (p *Policy) environment(said []string) []string {
	if p.Network != NetworkProxy {
		return slices.Clip(said)
	}
	env := proxied()
	for _, pair := range said {
		name, _, _ := strings.Cut(pair, "=")
		if !slices.ContainsFunc(env, func(own string) bool { return strings.HasPrefix(own, name+"=") }) && strings.ToUpper(name) != "ALL_PROXY" {
			env = append(env, pair)
		}
	}
	return env
}

// A gate is the gateway's work for one run.
type gate struct {
	socket *net.UnixConn // our end of where the listener comes from
	stop   context.CancelFunc
	ready  chan error    // has one: nil when the gateway serves
	served chan struct{} // nil: it has not begun
}

// openGate makes the socket by which the listener of a run comes, and returns the helper's end.
func (r *Runner) openGate() (*gate, *os.File, error) {
	if r.gateway == nil {
		return nil, nil, &RefusedError{Fact: "net", Step: "network: proxy", Err: errors.New("there is no gateway")}
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

// begin lets the gateway serve as soon as the helper has sent the listener, which is before anything runs there.
func (g *gate) begin(gateway Gateway, spec *Spec) {
	ctx, stop := context.WithCancel(context.Background())
	g.stop, g.served = stop, make(chan struct{})
	go func() {
		defer close(g.served)
		l, err := g.listener()
		if err != nil {
			err = &RefusedError{Fact: "net", Step: "network: proxy", Err: err}
		}
		g.ready <- err
		if err == nil {
			defer l.Close()
			gateway.Serve(ctx, spec.Tag, spec.Policy, l)
		}
	}()
}

// listener waits for the one message of the helper, or for its end.
func (g *gate) listener() (net.Listener, error) {
	data, rights := make([]byte, 8), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := g.socket.ReadMsgUnix(data, rights)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(errors.New("no listener came"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(errors.New("no listener came"), err)
	}
	file := os.NewFile(uintptr(fds[0]), "listener")
	defer file.Close()
	return net.FileListener(file)
}

// end ends what the gateway does for a run. It may be called again.
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

// ask is what a canary says to the gateway: it wants to be led to a listener of the machine.
func ask(lure []byte) string {
	port := int(lure[2])<<8 | int(lure[3])
	return fmt.Sprintf("CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", port, port)
}

// closed reports whether a policy's network leads nowhere but to a gateway that refuses what it must.
func (p *Policy) closed(t *trial) (held bool, why string) {
	if p.Network != NetworkProxy {
		return true, ""
	}
	switch m := t.tried[helper.TryProxy]; {
	case m.Errno != 0 || m.Value > 999: // nothing, or no status
		return false, "the proxy did not answer a canary"
	case m.Value != 403:
		return false, fmt.Sprintf("the proxy answered %d to a canary that asked for the machine itself", m.Value)
	}
	return true, ""
}
