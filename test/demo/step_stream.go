package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const (
	streamRows = 8
	streamLoop = `for i in 1 2 3 4 5 6 7 8; do echo "line $i"; sleep 0.25; done; echo ran >> loop.txt`
	// streamSpread is the minimum time between the first and the last line. It shows that the lines do not all arrive at the end.
	streamSpread = time.Second
)

// streamBash starts a command in the background, approves it, and shows its lines as they are printed.
func (s *stage) streamBash(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 2*callWait)
	defer stop()
	watching, err := s.begin(ctx, "call", "bash", "command="+streamLoop, "--watch")
	if err != nil {
		return err
	}
	var c *tooldv1.Call
	if err := eventually(callWait, func() (err error) {
		c, err = s.waiting(ctx, "bash")
		return err
	}); err != nil {
		return err
	}
	id := c.GetSuspension().GetSuspensionId()
	if err := errors.Join(s.showUntil(watching, "toold approve "+id), untouched(c), s.absent("loop.txt"), s.noProcess()); err != nil {
		return err
	}
	s.tell.proof("it waits: no attempt on record, no process in the workspace")
	approved := make(chan error, 1)
	s.tell.command(typed([]string{"approve", id}) + "   # in another terminal")
	go func() {
		a, err := s.quiet(ctx, "approve", id)
		if err == nil && a.stdout != streamText() {
			err = fmt.Errorf("who approved it saw another output:\n%s", a.screen)
		}
		approved <- errors.Join(err, a.is(0))
	}()
	if err := s.streamed(watching); err != nil {
		return err
	}
	if err := <-approved; err != nil {
		return err
	}
	if text := s.file("loop.txt"); text != "ran\n" {
		return fmt.Errorf("loop.txt holds %q after one run", text)
	}
	ended, err := s.over(ctx, c.GetCallId(), succeeded, tooldv1.Executed_EXECUTED_FINISHED, 1)
	if err != nil {
		return err
	}
	out, err := s.api.calls.ReadArtifact(ctx, &tooldv1.ReadArtifactRequest{CallId: ended.GetCallId(), Name: "stdout"})
	if err != nil {
		return err
	}
	if string(out.GetData()) != streamText() || !out.GetEof() {
		return fmt.Errorf("the stored stdout is %q", out.GetData())
	}
	s.tell.proof("the command ran once (loop.txt), and the stored output is what was streamed")
	return nil
}

// streamed reads the output of the command line while the command runs.
func (s *stage) streamed(r *running) error {
	var first, last time.Time
	rows, during := 0, 0
	for l := range r.lines {
		s.tell.printed(l.text)
		if l.stderr || l.text != fmt.Sprintf("line %d", rows+1) {
			continue
		}
		if rows++; rows == 1 {
			first = l.at
		}
		last = l.at
		if alive, err := processesIn(s.workspace); err == nil && len(alive) > 0 {
			during++
		}
	}
	if err := r.done().is(0); err != nil {
		return err
	}
	switch {
	case rows != streamRows:
		return fmt.Errorf("%d of %d lines came, in order", rows, streamRows)
	case last.Sub(first) < streamSpread:
		return fmt.Errorf("the lines came within %v: they were not streamed", last.Sub(first))
	case during < streamRows/2:
		return fmt.Errorf("only %d lines came while the command ran", during)
	}
	s.tell.proof("%d lines came over %.1f s, %d of them while its process was in /proc", rows, last.Sub(first).Seconds(), during)
	return nil
}

func streamText() string {
	text := ""
	for i := range streamRows {
		text += fmt.Sprintf("line %d\n", i+1)
	}
	return text
}

func (s *stage) noProcess() error {
	found, err := processesIn(s.workspace)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("processes run in the workspace: %v", found)
	}
	return err
}
