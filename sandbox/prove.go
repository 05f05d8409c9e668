package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"

	"github.com/toold-dev/toold/sandbox/cgroup"
	"github.com/toold-dev/toold/sandbox/helper"
	"github.com/toold-dev/toold/sandbox/isolation"
)

// Prove measures how well a policy is enforced on this machine. It runs a canary under the policy, which tries to break out:
//
//   - read and write files that it must not see
//   - reach a listener and a process of the machine
//   - get a mount, a raw socket, more memory and more processes than it may have
//   - leave processes behind
//
// A protection that the canary could break counts as not held, whatever the configuration says.
func (r *Runner) Prove(ctx context.Context, policy Policy) (isolation.Facts, error) {
	policy.Limits.Processes = leastProcesses // The canary reaches the smallest permitted limit fastest, and a larger limit would prove nothing more.
	for left := canaries; ; {
		exit, try, err := r.prove(ctx, policy, func(run *run) { r.keepShort(run, false) })
		refused, is := errors.AsType[*RefusedError](err)
		switch {
		case is && refused.Step == "limit: processes" && r.kernel.pidMax.CompareAndSwap(true, false):
			continue
		case is:
			return refusedFacts(refused), nil
		case err != nil:
			return isolation.Facts{}, err
		case try.whole():
			hungry, why, err := r.starve(ctx, policy)
			if err != nil {
				return isolation.Facts{}, err
			}
			f := r.judge(&policy, exit, try, hungry)
			if why != nil && !f.CPULimit.Held {
				f.CPULimit.Detail = why.Error()
			}
			if why != nil && !f.MemLimit.Held && hungry == nil {
				f.MemLimit.Detail = why.Error()
			}
			return f, nil
		}
		if left--; left == 0 {
			return isolation.Facts{}, fmt.Errorf("none of %d canaries finished", canaries)
		}
	}
}

// starve runs the canary that tries to exceed the memory and CPU limits of its control group. It returns nil when there are no control
// groups. When the group cannot have these limits, for example because its parent has a smaller CPU share, why contains the reason.
func (r *Runner) starve(ctx context.Context, policy Policy) (hungry *trial, why *RefusedError, err error) {
	if r.groups.Mechanism() == "" {
		return nil, nil, nil
	}
	for _, cpus := range []bool{true, false} {
		_, hungry, err = r.prove(ctx, policy, func(run *run) {
			if r.keepShort(run, true); !cpus {
				run.ceiling.CPUs, run.ceiling.Period = 0, 0
			}
		})
		refused, is := errors.AsType[*RefusedError](err)
		if !is {
			return hungry, why, err
		}
		why = cmp.Or(why, refused)
	}
	return nil, why, nil
}

// CanaryTag is the tag of the runs of canaries.
const CanaryTag = "canary"

// canaries is the maximum number of canaries that are started until one reports all its results. A canary may be killed by mistake: another
// daemon that takes over the journal ends the processes of the previous daemon, and may take a canary for one of them.
const canaries = 3

// A trial records what a canary could do.
type trial struct {
	tried    map[uint32]helper.Message
	wrote    bool // true when the canary wrote a file outside
	received int  // number of listeners outside that the canary reached
	spent    cgroup.Usage
}

// whole reports whether the canary reported the result of every try. Forking is its last try.
func (t *trial) whole() bool {
	_, reported := t.tried[helper.TryForks]
	return reported
}

// prove runs a canary. bound sets its limits and what it tries.
func (r *Runner) prove(ctx context.Context, policy Policy, bound func(*run)) (*Exit, *trial, error) {
	name := filepath.Join(r.records.dir, "canary-"+rand.Text())
	if err := os.WriteFile(name, []byte("canary"), 0o600); err != nil {
		return nil, nil, err
	}
	defer os.Remove(name)
	lure, err := listen()
	if err != nil {
		return nil, nil, err
	}
	run, err := r.newRun(Spec{Path: "/", Dir: policy.Workspace, Policy: &policy, Grace: -1, Tag: CanaryTag})
	if err != nil {
		return nil, nil, errors.Join(err, lure.close())
	}
	defer r.leave(run)
	run.canary = &helper.Canary{
		Read: name, Write: name + "-write", Dial: lure.tcp(), Datagram: lure.udp(),
		Memory: int64(r.order(&run.spec, "").Limits[1].Value) + 1<<20, Forks: policy.Limits.Processes + 50,
	}
	if policy.Network == NetworkProxy {
		run.canary.Ask = ask(lure.tcp())
	}
	if policy.Unsupervised {
		run.canary.Forks = 1
	}
	bound(run)
	if err := policy.Check(); err != nil {
		return nil, nil, errors.Join(err, lure.close())
	}
	if err := r.start(ctx, run); err != nil {
		return nil, nil, errors.Join(err, lure.close())
	}
	exit, err := r.attend(ctx, run)
	t := &trial{tried: map[uint32]helper.Message{}, received: lure.received(), spent: run.spent}
	err = errors.Join(err, lure.close())
	if os.Remove(name+"-write") == nil {
		t.wrote = true
	}
	for _, m := range run.inner.tried {
		t.tried[m.Step] = m
	}
	return exit, t, err
}

// refusedFacts returns the facts of a machine that refuses a policy.
func refusedFacts(e *RefusedError) isolation.Facts {
	no := isolation.Fact{Detail: e.Error()}
	return isolation.Facts{
		FSRead: no, FSWrite: no, Net: no, IPC: no, ProcessesKilled: no, MemLimit: no, PidsLimit: no, CPULimit: no, DiskLimit: no, SeparateKernel: no,
	}
}

// judge converts the results of a canary to facts.
func (r *Runner) judge(p *Policy, exit *Exit, t, hungry *trial) isolation.Facts {
	failed := func(step uint32) bool {
		m, reported := t.tried[step]
		return reported && m.Errno != 0
	}
	fact := func(held bool, mechanism, detail string) isolation.Fact {
		f := isolation.Fact{Held: held, Mechanism: mechanism}
		if !held {
			f.Detail = detail
		}
		return f
	}
	files, kernel := "mount namespace", "list of permitted system calls"
	if p.Unsupervised {
		files = "no namespace"
	}
	if r.kernel.landlock > 0 {
		files += fmt.Sprintf(", Landlock %d", r.kernel.landlock)
	}
	f := isolation.Facts{
		FSRead:  fact(failed(helper.TryRead), files, "a canary read a file outside"),
		FSWrite: fact(failed(helper.TryWrite) && !t.wrote && failed(helper.TryMount), files+", "+kernel, "a canary wrote a file outside, or mounted"),
		IPC:     fact(failed(helper.TrySignal), "namespaces of IPC and processes", "a canary reached a process outside"),
		Net: fact(failed(helper.TryDial) && t.received == 0 && failed(helper.TryPacket), "network namespace, "+kernel,
			"a canary reached the machine's network"),
		DiskLimit:      isolation.Fact{Mechanism: "size of /tmp and of each file", Detail: "the workspace has no quota"},
		SeparateKernel: isolation.Fact{Detail: "processes use the kernel of the machine"},
	}
	r.shares(&f, p, hungry)
	if held, why := p.closed(t); !held {
		f.Net = isolation.Fact{Mechanism: f.Net.Mechanism, Detail: why}
	}
	if p.Network == NetworkProxy {
		f.Net.Mechanism += ", proxy"
	}
	if f.FSWrite.Held && !failed(helper.TryMode) {
		f.FSWrite = isolation.Fact{Mechanism: f.FSWrite.Mechanism, Detail: "a canary changed the mode of a file outside, which Landlock does not prevent"}
	}
	if !failed(helper.TryMemory) {
		f.MemLimit = isolation.Fact{Detail: "a canary got more memory than its limit"}
	}
	if p.Unsupervised {
		f.Net.Mechanism, f.ProcessesKilled = "no sockets, "+kernel, r.Facts().ProcessesKilled
		f.IPC = fact(failed(helper.TrySignal), "Landlock", "a canary reached a process outside")
		f.PidsLimit = fact(t.spent.Refused > 0, r.groups.Mechanism(), "there is neither a process namespace nor a control group that counts processes")
		return f
	}
	forks := t.tried[helper.TryForks]
	ended := len(exit.Killed) > 0 && len(exit.Unverified) == 0
	for _, pid := range exit.Killed {
		ended = ended && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	f.ProcessesKilled = fact(ended, "process namespace", "the end of processes that a canary left behind was not observed")
	bounds := "process namespace"
	if t.spent.Refused > 0 {
		bounds = r.groups.Mechanism() + ", " + bounds
	}
	f.PidsLimit = fact(forks.Errno == uint32(syscall.EAGAIN) && int(forks.Value) <= p.Limits.Processes, bounds, "a canary started more processes than its limit")
	return f
}

// A lure is a set of listeners outside the sandbox that canaries try to reach.
type lure struct {
	stream *net.TCPListener
	packet *net.UDPConn
}

func listen() (*lure, error) {
	at := netip.MustParseAddrPort("127.0.0.1:0")
	stream, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	packet, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, errors.Join(err, stream.Close())
	}
	return &lure{stream, packet}, nil
}

func (l *lure) tcp() []byte {
	return helper.Address([4]byte{127, 0, 0, 1}, l.stream.Addr().(*net.TCPAddr).AddrPort().Port())
}

func (l *lure) udp() []byte {
	return helper.Address([4]byte{127, 0, 0, 1}, l.packet.LocalAddr().(*net.UDPAddr).AddrPort().Port())
}

// received returns how many of the two listeners got a connection or a datagram. It polls the sockets without waiting, because data on the
// loopback device arrives at once. A deadline, even a short one, could pass before a busy machine polls.
func (l *lure) received() (n int) {
	asked := func(c syscall.Conn, ask func(fd int) error) {
		raw, err := c.SyscallConn()
		if err == nil {
			_ = raw.Control(func(fd uintptr) {
				if ask(int(fd)) == nil {
					n++
				}
			})
		}
	}
	asked(l.stream, func(fd int) error {
		c, _, err := syscall.Accept4(fd, syscall.SOCK_CLOEXEC)
		if err == nil {
			err = syscall.Close(c)
		}
		return err
	})
	asked(l.packet, func(fd int) error {
		_, _, err := syscall.Recvfrom(fd, make([]byte, 8), syscall.MSG_DONTWAIT)
		return err
	})
	return n
}

func (l *lure) close() error { return errors.Join(l.stream.Close(), l.packet.Close()) }

// Facts returns the facts for processes without a Policy. None of these facts holds. The Runner does kill the processes of a call, but
// without a PID namespace this is not guaranteed, so the fact ProcessesKilled only names the mechanism.
func (r *Runner) Facts() isolation.Facts {
	mechanism := "session, parent links, environment tag"
	if adoptsOrphans() {
		mechanism += ", subreaper"
	}
	return isolation.Facts{ProcessesKilled: isolation.Fact{Mechanism: mechanism}}
}
