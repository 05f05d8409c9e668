package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const (
	treeCalls = 200                    // how many calls are drawn: the newest of the run
	treePause = 200 * time.Millisecond // the shortest time between two refreshes
)

// watchTree draws the calls of a run on the terminal and redraws them on every change until ctx ends. With noFollow it draws once. The last
// drawing stays on the terminal.
func watchTree(ctx context.Context, a *App, c *client, request *tooldv1.WatchCallsRequest, f *watchFlags) error {
	t := &treeWatch{a: a, c: c, run: f.run, progress: map[string]string{}, width: 80, height: 24, out: a.Out}
	if _, out, ok := a.terminal(); ok {
		t.size = func() (int, int, error) { return term.GetSize(int(out.Fd())) }
	}
	if f.noFollow {
		return t.draw(ctx)
	}
	ctx, stop := context.WithCancel(ctx)
	got, ended := make(chan *tooldv1.Frame), make(chan error, 1)
	follow := follower{
		cursor: f.cursor, say: func(string) {}, patience: -1, pause: sleep, done: func() bool { return false },
		take: func(ctx context.Context, frame *tooldv1.Frame) error {
			select {
			case got <- frame:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		open: func(ctx context.Context, cursor string) (frames, error) {
			request.Cursor = cursor
			return framesOf(c.calls.WatchCalls(ctx, request))
		},
	}
	if f.noReconnect {
		follow.patience = 0
	}
	go func() { ended <- follow.run(ctx) }()
	err := t.redraw(ctx, got, ended)
	stop()
	return err
}

// treeWatch is the state of a watched run.
type treeWatch struct {
	a             *App
	c             *client
	run           string
	progress      map[string]string // key: call id; the last progress text of the call
	out           io.Writer
	size          func() (width, height int, err error)
	width, height int
	lines         int // number of lines drawn
}

// redraw draws soon after each event and once a second, until the watch ends.
func (t *treeWatch) redraw(ctx context.Context, frames <-chan *tooldv1.Frame, ended <-chan error) error {
	look := time.NewTimer(0) // fires at once
	defer look.Stop()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	waiting := true
	for {
		select {
		case err := <-ended:
			return err
		case f := <-frames:
			t.note(f)
			if !waiting && len(f.GetEvents()) > 0 {
				waiting = true
				look.Reset(treePause)
			}
			continue
		case <-look.C:
			waiting = false
		case <-second.C:
		}
		if err := t.draw(ctx); err != nil && ctx.Err() == nil && !broken(err) {
			return err
		}
	}
}

func (t *treeWatch) note(f *tooldv1.Frame) {
	for _, e := range f.GetEvents() {
		switch {
		case e.GetProgress() != nil:
			t.progress[e.GetCallId()] = show.Progress(e.GetProgress())
		case e.GetFinished() != nil:
			delete(t.progress, e.GetCallId())
		}
	}
}

// draw reads the run and draws it over the previous drawing.
func (t *treeWatch) draw(ctx context.Context) error {
	calls, err := t.calls(ctx)
	if err != nil {
		return err
	}
	if t.size != nil {
		if w, h, err := t.size(); err == nil && w > 0 && h > 1 {
			t.width, t.height = w, h
		}
	}
	lines := t.a.OutView().Tree(t.run, calls, t.progress, t.width-1)
	if most := t.height - 1; t.size != nil && len(lines) > most { // keep the head and the newest calls
		hidden := len(lines) - most + 1
		lines = append([]string{lines[0], fmt.Sprintf("⋮ %d above", hidden)}, lines[1+hidden:]...)
	}
	var b strings.Builder
	if t.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", t.lines)
	}
	for _, line := range lines {
		if t.size != nil {
			b.WriteString("\x1b[K")
		}
		b.WriteString(line + "\n")
	}
	if t.lines > len(lines) {
		b.WriteString("\x1b[J")
	}
	if t.size != nil {
		t.lines = len(lines)
	}
	_, err = io.WriteString(t.out, b.String())
	return err
}

// calls returns the calls of the run, oldest first.
func (t *treeWatch) calls(ctx context.Context) ([]*tooldv1.Call, error) {
	request := &tooldv1.ListCallsRequest{RunId: t.run, PageSize: 100, ReadMask: &fieldmaskpb.FieldMask{
		Paths: []string{"call_id", "status", "tool", "created_at", "started_at", "ended_at", "run", "description", "result"},
	}}
	var all []*tooldv1.Call
	for len(all) < treeCalls {
		page, err := t.c.calls.ListCalls(ctx, request)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetCalls()...)
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			break
		}
	}
	slices.Reverse(all) // the daemon lists the newest first
	return all, nil
}
