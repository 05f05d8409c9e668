package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const longID = "demo-long-call-0001"

const (
	treeSize    = 3  // number of processes whose ids long.sh writes into the file tree
	beforeDrop  = 40 // number of events that the watcher sees before its connection breaks
	whileAway   = 25 // number of events that happen while the watcher is disconnected
	afterReturn = 25 // number of events that the watcher sees after it has resumed, before the cancel
)

// reattachAndCancel watches a long call with two watchers. One loses its connection and resumes with its cursor. The other stays connected
// and shows what the first must have seen. Then the call is cancelled.
func (s *stage) reattachAndCancel(ctx context.Context) error {
	id, approver, err := s.startLong(ctx)
	if err != nil {
		return err
	}
	steady := newTape(id, s.api.reader(ctx, id))
	stayed := make(chan error, 1)
	go func() { stayed <- s.follow(ctx, s.api, steady, nil) }()

	torn, err := s.watchAndLose(ctx, id)
	if err != nil {
		return err
	}
	tree, err := s.tree()
	if err != nil {
		return err
	}
	back := make(chan error, 1)
	returned := make(chan struct{})
	seen := torn.last()
	go func() {
		var once sync.Once
		back <- s.follow(ctx, s.api, torn, func() {
			if torn.last() >= seen+whileAway+afterReturn {
				once.Do(func() { close(returned) })
			}
		})
	}()
	select {
	case <-returned:
	case err := <-back:
		return errors.Join(errors.New("the watcher that came back does not see the log go on"), err)
	case <-time.After(callWait):
		return errors.New("the watcher that came back hears nothing new")
	}
	if err := s.cancelTree(ctx, id, tree); err != nil {
		return err
	}
	if err := errors.Join(<-stayed, <-back, <-approver); err != nil {
		return err
	}
	return s.compare(ctx, torn, steady, seen)
}

// startLong starts the call and approves it. The approving command follows the call to its end.
func (s *stage) startLong(ctx context.Context) (string, <-chan error, error) {
	s.tell.note("long.sh prints without end; it starts a child that ignores SIGTERM, and a double-forked orphan in a session of its own")
	a, err := s.toold(ctx, 4, "call", "bash", "--call-id", longID, "command=bash long.sh")
	if err := errors.Join(err, a.is(exitSuspended)); err != nil {
		return "", nil, err
	}
	c, err := s.waiting(ctx, "bash")
	if err != nil {
		return "", nil, err
	}
	s.tell.command(typed([]string{"approve", c.GetSuspension().GetSuspensionId()}) + " &")
	approver := make(chan error, 1)
	go func() {
		a, err := s.quiet(ctx, "approve", c.GetSuspension().GetSuspensionId())
		approver <- errors.Join(err, a.is(exitCancelled))
	}()
	return c.GetCallId(), approver, nil
}

// follow reads into a tape until its call ends, starting at the tape's cursor. It invokes each after every frame.
func (s *stage) follow(ctx context.Context, a *api, t *tape, each func()) error {
	stream, err := a.watch(ctx, t.callID, t.cursor, true)
	if err != nil {
		return err
	}
	for t.finished() == nil {
		if err := s.next(stream, t); err != nil {
			return err
		}
		if each != nil {
			each()
		}
	}
	return nil
}

func (s *stage) next(stream grpc.ServerStreamingClient[tooldv1.WatchCallsResponse], t *tape) error {
	r, err := stream.Recv()
	if err != nil {
		return fmt.Errorf("the stream ended after event %d: %w", t.last(), err)
	}
	return t.take(r.GetFrame())
}

// watchAndLose watches over a separate connection and breaks it.
func (s *stage) watchAndLose(ctx context.Context, id string) (*tape, error) {
	fragile, err := s.connect()
	if err != nil {
		return nil, err
	}
	defer fragile.close()
	t := newTape(id, s.api.reader(ctx, id)) // The bytes of old events are read over the connection that is not broken.
	stream, err := fragile.watch(ctx, id, "", true)
	if err != nil {
		return nil, err
	}
	for t.last() < beforeDrop {
		if err := s.next(stream, t); err != nil {
			return nil, err
		}
	}
	fragile.cut()
	s.tell.note("watched over gRPC up to event %d, byte %d of stdout; then the TCP connection is torn", t.last(), len(t.streams["stdout"]))
	if _, err := stream.Recv(); err == nil {
		// Data that arrived before the cut could still be read. The demo does not read it, so that the watcher resumes with an older
		// cursor.
		s.tell.note("a frame that was on its way is thrown away: it has to come again")
	}
	return t, s.waitBeyond(ctx, id, t.last()+whileAway)
}

// waitBeyond waits until the call has continued without the disconnected watcher.
func (s *stage) waitBeyond(ctx context.Context, id string, sequence int64) error {
	return eventually(callWait, func() error {
		c, err := s.api.call(ctx, id)
		if err == nil && c.GetLastSequence() < sequence {
			err = fmt.Errorf("the call stands at event %d", c.GetLastSequence())
		}
		return err
	})
}

// tree reads the ids of the processes that the command started, and finds them in /proc.
func (s *stage) tree() ([]process, error) {
	written, err := named(filepath.Join(s.workspace, "tree"))
	if err != nil {
		return nil, err
	}
	if len(written) != treeSize {
		return nil, fmt.Errorf("the command wrote down %v, %d processes were due", written, treeSize)
	}
	found, err := processesIn(s.workspace)
	if err != nil {
		return nil, err
	}
	sessions := map[string]bool{}
	for _, p := range written {
		sessions[p.session] = true
	}
	if len(sessions) != 2 {
		return nil, fmt.Errorf("the processes %v are in %d sessions; the orphan has to have its own", written, len(sessions))
	}
	all := map[int]process{}
	for _, p := range append(written, found...) {
		all[p.pid] = p
	}
	s.tell.note("its %d processes in /proc; those of the file tree: %v", len(all), written)
	return slices.Collect(maps.Values(all)), nil
}

// cancelTree cancels the call and checks the processes as soon as the answer has arrived.
func (s *stage) cancelTree(ctx context.Context, id string, tree []process) error {
	if left := living(tree); len(left) < treeSize {
		return fmt.Errorf("only %v were alive before the cancel", left)
	}
	a, err := s.toold(ctx, 8, "cancel", id, "--wait", "10s")
	left := living(tree)
	found, scanErr := processesIn(s.workspace)
	if err := errors.Join(err, scanErr, a.is(0)); err != nil {
		return err
	}
	if len(left) > 0 || len(found) > 0 {
		return fmt.Errorf("reported as cancelled, but these run: %v %v", left, found)
	}
	s.tell.proof("when the answer came, none of the %d processes was in /proc any more, and no other in the workspace", len(tree))
	c, err := s.over(ctx, id, cancelled, tooldv1.Executed_EXECUTED_STARTED, 1)
	if err != nil {
		return err
	}
	switch p := c.GetResult().GetProcesses(); {
	case c.GetCancelRequest() == nil:
		return errors.New("the record does not know who cancelled")
	case p.GetKillUnverified() || len(p.GetKilled()) == 0:
		return fmt.Errorf("the record says of the kill: %v", p)
	}
	ticks := s.file("ticks")
	time.Sleep(200 * time.Millisecond) // Wait for ten ticks, which a running command would write.
	if s.file("ticks") != ticks {
		return errors.New("the command still writes into the workspace")
	}
	return nil
}

// compare compares what the reconnected watcher saw with the other watcher, the stored log, and the file that the command wrote.
func (s *stage) compare(ctx context.Context, torn, steady *tape, dropped int64) error {
	if err := torn.same(steady); err != nil {
		return fmt.Errorf("the watcher that lost its connection saw another log: %w", err)
	}
	if torn.inline == 0 {
		return errors.New("no output came live")
	}
	stored, err := s.whole(ctx, torn.callID)
	if err != nil {
		return err
	}
	if err := torn.same(stored); err != nil {
		return fmt.Errorf("the stored log is another one: %w", err)
	}
	// If the kill came between the command's two writes, one side has one line more.
	out, ticks := string(torn.streams["stdout"]), s.file("ticks")
	longer, shorter := out, ticks
	if len(longer) < len(shorter) {
		longer, shorter = shorter, longer
	}
	if rest, ok := strings.CutPrefix(longer, shorter); !ok || strings.Count(rest, "\n") > 1 {
		return fmt.Errorf("stdout has %d bytes, the command wrote %d, and they differ", len(out), len(ticks))
	}
	s.tell.proof("events 1 to %d, dropped after %d and gone on from the cursor: none missing, none twice", torn.last(), dropped)
	s.tell.proof("every sequence and byte offset as the steady watcher saw it, as the journal has it, and as the command wrote it (%d bytes)", len(out))
	return nil
}
