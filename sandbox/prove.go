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

// Prove finds out what a policy is worth on this machine. It runs a canary under it, which tries to read and write what it
// must not see, to reach a listener and a process of the machine, to get a mount, a raw socket, more memory and more
// processes than it may have, and leaves processes behind. What the canary could do is not held, whatever else says that
// it should be.
func (r *Runner) Prove(ctx context.Context, policy Policy) (isolation.Facts, error) {
	policy.Limits.Processes = leastProcesses // a limit is a limit; this one is the quickest to reach
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
			return isolation.Facts{}, fmt.Errorf("none of %d canaries came to its end", canaries)
		}
	}
}

// starve sends the canary that takes more memory and time than its control group may have; there is none where there are no
// groups. One that cannot have such limits, as below a group with a share of the processors that is smaller still, proves
// nothing about them, and says why.
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

// CanaryTag is the tag of a canary.
const CanaryTag = "canary"

// canaries is how many are sent until one comes to its end: another daemon that takes the journal over ends the processes of
// the one before, and may take a canary for one of them.
const canaries = 3

// A trial is what a canary could do.
type trial struct {
	tried    map[uint32]helper.Message
	wrote    bool // a file outside
	received int  // bytes and connections
	spent    cgroup.Usage
}

// whole reports whether the canary reported the end of each try. The forks are its last.
func (t *trial) whole() bool {
	_, told := t.tried[helper.TryForks]
	return told
}

// prove sends a canary, after bound has said what it may have and is to try.
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
		Read: name, Write: name + "-write", Dial: lure.tcp(), Datagram: lure.udp(), Signal: r.origin.self.pid,
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

// refusedFacts are those of a machine that refuses a policy.
func refusedFacts(e *RefusedError) isolation.Facts {
	no := isolation.Fact{Detail: e.Error()}
	return isolation.Facts{
		FSRead: no, FSWrite: no, Net: no, IPC: no, ProcessesKilled: no, MemLimit: no, PidsLimit: no, CPULimit: no, DiskLimit: no, SeparateKernel: no,
	}
}

// judge turns what a canary could do into facts.
func (r *Runner) judge(p *Policy, exit *Exit, t, hungry *trial) isolation.Facts {
	failed := func(step uint32) bool {
		m, told := t.tried[step]
		return told && m.Errno != 0
	}
	fact := func(held bool, mechanism, detail string) isolation.Fact {
		f := isolation.Fact{Held: held, Mechanism: mechanism}
		if !held {
			f.Detail = detail
		}
		return f
	}
	files, kernel := "mount namespace", "system calls by list"
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
		DiskLimit:      isolation.Fact{Mechanism: "size of /tmp and of each file", Detail: "the workspace has no quota of its own"},
		SeparateKernel: isolation.Fact{Detail: "processes run on the machine's own kernel"},
	}
	r.shares(&f, p, hungry)
	if held, why := p.closed(t); !held {
		f.Net = isolation.Fact{Mechanism: f.Net.Mechanism, Detail: why}
	}
	if p.Network == NetworkProxy {
		f.Net.Mechanism += ", proxy"
	}
	if f.FSWrite.Held && !failed(helper.TryMode) {
		f.FSWrite = isolation.Fact{Mechanism: f.FSWrite.Mechanism, Detail: "a canary changed the mode of a file outside, which Landlock does not keep from"}
	}
	if !failed(helper.TryMemory) {
		f.MemLimit = isolation.Fact{Detail: "a canary got more memory than its limit"}
	}
	if p.Unsupervised {
		f.Net.Mechanism, f.ProcessesKilled = "no sockets, "+kernel, r.Facts().ProcessesKilled
		f.IPC = fact(failed(helper.TrySignal), "Landlock", "a canary reached a process outside")
		f.PidsLimit = fact(t.spent.Refused > 0, r.groups.Mechanism(), "there is neither a namespace of processes nor a control group to count in")
		return f
	}
	forks := t.tried[helper.TryForks]
	gone := len(exit.Killed) > 0 && len(exit.Unverified) == 0
	for _, pid := range exit.Killed {
		gone = gone && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	f.ProcessesKilled = fact(gone, "process namespace", "processes that a canary left behind were not seen to die")
	bounds := "process namespace"
	if t.spent.Refused > 0 {
		bounds = r.groups.Mechanism() + ", " + bounds
	}
	f.PidsLimit = fact(forks.Errno == uint32(syscall.EAGAIN) && int(forks.Value) <= p.Limits.Processes, bounds, "a canary started more processes than its limit")
	return f
}

// A lure waits for canaries.
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

// received counts what has come. What was sent on the loopback device is there at once, so the sockets are asked without waiting: a deadline,
// however short, could pass before a busy machine asks.
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

// Facts returns the facts for processes of r without a Policy. The Runner kills the processes of a call, but only a namespace of processes
// makes that certain, so it is not held.
func (r *Runner) Facts() isolation.Facts {
	mechanism := "session, parent links, environment tag"
	if adoptsOrphans() {
		mechanism += ", subreaper"
	}
	return isolation.Facts{ProcessesKilled: isolation.Fact{Mechanism: mechanism}}
}
