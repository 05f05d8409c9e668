package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const (
	hostSecret  = "the-password-of-the-host"
	hostFile    = "secret.txt"
	networkCall = "demo-isolated-000001"
)

// isolated shows what an approved command cannot reach: a file of the machine and a listener on it. The demo first reads the file and
// connects to the listener itself, so that only isolation explains the failures.
func (s *stage) isolated(ctx context.Context) error {
	file := filepath.Join(s.dir, hostFile)
	// All users may read the file, so only isolation hides it.
	if err := os.WriteFile(file, []byte(hostSecret+"\n"), 0o644); err != nil {
		return err
	}
	connections, address, err := s.listen(ctx)
	if err != nil {
		return err
	}
	s.tell.note("beside the workspace lies %s, mode 0644; somebody listens on %s; both can be reached from here", hostFile, address)
	host, port, _ := net.SplitHostPort(address)
	command := fmt.Sprintf("cat ../%s; ls -A ..; exec 3<>/dev/tcp/%s/%s", hostFile, host, port)
	a, err := s.toold(ctx, 4, "call", "bash", "--call-id", networkCall, "command="+command)
	if err := errors.Join(err, a.is(exitSuspended)); err != nil {
		return err
	}
	c, err := s.waiting(ctx, "bash")
	if err != nil {
		return err
	}
	a, err = s.decide(ctx, "approve", c.GetSuspension().GetSuspensionId())
	if err := errors.Join(err, a.is(0)); err != nil {
		return err
	}
	if err := contains("the command", a.screen, hostFile+": No such file or directory", "\nworkspace\n", "connect: ", "exit_code=1"); err != nil {
		return err
	}
	if strings.Contains(a.screen, hostSecret) {
		return errors.New("the command read the file")
	}
	if n := connections(); n != 1 {
		return fmt.Errorf("the listener accepted %d connections, not only that of the demo", n)
	}
	s.tell.proof("the directory above the workspace has nothing else in it, and nobody connected to the listener")
	ended, err := s.over(ctx, networkCall, succeeded, tooldv1.Executed_EXECUTED_FINISHED, 1)
	if err != nil {
		return err
	}
	return s.held(ended.GetIsolation())
}

// listen accepts connections on the machine's loopback interface. It first checks that a connection from the demo arrives.
func (s *stage) listen(ctx context.Context) (connections func() int, address string, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	count := make(chan int, 1)
	first := make(chan struct{})
	go func() {
		n := 0
		for {
			c, err := l.Accept()
			if err != nil {
				count <- n
				return
			}
			if n++; n == 1 {
				close(first)
			}
			_ = c.Close()
		}
	}()
	own, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return nil, "", errors.Join(err, l.Close())
	}
	_ = own.Close()
	select {
	case <-first:
	case <-time.After(callWait):
		return nil, "", errors.Join(errors.New("the listener does not hear the demo"), l.Close())
	}
	return func() int { _ = l.Close(); return <-count }, l.Addr().String(), nil
}

// held shows which isolation facts the record of a call contains. A canary proved each of them when the daemon started.
func (s *stage) held(is *tooldv1.Isolation) error {
	missing := map[string]bool{"fs_read": true, "fs_write": true, "net": true, "processes_killed": true}
	var names []string
	for _, f := range is.GetFacts() {
		if f.GetHeld() {
			names = append(names, f.GetName())
			delete(missing, f.GetName())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the record says that the call ran without %v: %v", missing, is)
	}
	s.tell.proof("the record says under what it ran: %s", strings.Join(names, ", "))
	return nil
}
