package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toold-dev/toold/cli/inbox"
	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// attach connects the user's terminal to the terminal of the call. It sends keys as they are typed, shows the output from its beginning,
// and forwards size changes. It returns when the call has ended or the user has detached.
func attach(ctx context.Context, a *App, t *typist, in, out *os.File) error {
	if err := t.begin(); err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "attached to %s; ctrl-] d detaches\n", show.Line(t.id))
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT) // like SIGINT and SIGTERM: restore the terminal first
	defer cancel()
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return err
	}
	s := attached{t: t, out: out, keys: make(chan []byte), ended: make(chan error, 1), sent: make(chan error, 1)}
	t.ctx = ctx
	var others sync.WaitGroup
	others.Go(func() { s.ended <- s.show(ctx) })
	others.Go(func() { s.read(ctx, int(in.Fd())) })
	detached, err := s.loop(ctx, &others)
	cancel()
	others.Wait()
	_, wrote := out.WriteString(s.filter.leave() + "\r\n")
	if err = errors.Join(err, wrote, term.Restore(int(in.Fd()), before)); err != nil {
		return err
	}
	if detached {
		fmt.Fprintf(a.Err, "detached; the call continues\n")
	} else {
		fmt.Fprintf(a.Err, "%s\n", show.Status(s.status))
	}
	return nil
}

// hasTerminal reports whether the call's arguments ask for a terminal (pty).
func hasTerminal(c *tooldv1.Call) bool {
	var arguments struct {
		PTY json.RawMessage `json:"pty"`
	}
	return json.Unmarshal([]byte(c.GetEffectiveArguments()), &arguments) == nil && len(arguments.PTY) > 0 && string(arguments.PTY) != "null"
}

// attached is a call to which the user's terminal is connected.
type attached struct {
	t      *typist
	out    *os.File
	keys   chan []byte // closed when the user's terminal is gone
	ended  chan error  // receives one value: nil when the end of the call was shown, or the error
	sent   chan error  // receives the result of each request
	status tooldv1.CallStatus
	filter outputFilter
}

// endPatience is how long to wait for the end of the call after it refused input.
const endPatience = 2 * time.Second

// mostTyped is how many typed bytes are buffered while the call accepts no input. Further input is lost, as on any terminal.
const mostTyped = 64 << 10

// lastKeys is how long detaching waits for earlier input to be sent.
const lastKeys = time.Second

// loop sends typed input, one request at a time. Requests run in other goroutines, so that the user can detach while the call accepts no
// input.
func (s *attached) loop(ctx context.Context, others *sync.WaitGroup) (detached bool, err error) {
	resized := make(chan os.Signal, 1)
	resized <- syscall.SIGWINCH // makes the loop send the current size first; this comes before Notify, because a signal could fill the channel and this line would block
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	var (
		d     detacher
		o     = outbox{send: func(ask func() error) { others.Go(func() { s.sent <- ask() }) }}
		late  <-chan time.Time
		leave bool
	)
	for {
		s.dispatch(&o)
		if leave && !o.busy {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-late:
			return true, nil
		case err := <-s.ended:
			return leave, err
		case <-resized:
			o.resize = true
		case err := <-s.sent:
			if o.busy = false; err != nil {
				return leave, s.over(err)
			}
		case b, ok := <-s.keys:
			if !ok {
				return false, errors.New("the terminal was closed")
			}
			if leave {
				continue
			}
			if b, leave = d.typed(b); leave {
				late = time.After(lastKeys)
			}
			o.typed = append(o.typed, b[:min(len(b), mostTyped-len(o.typed))]...)
		}
	}
}

// over returns the final error after the daemon refused input. A call that is ending refuses input, so over first waits for its end.
func (s *attached) over(err error) error {
	if status.Code(err) != codes.FailedPrecondition {
		return err
	}
	select {
	case err = <-s.ended:
	case <-time.After(endPatience):
	}
	return err
}

// An outbox holds the input to send to the call. Only one request is in flight.
type outbox struct {
	typed  []byte
	resize bool
	busy   bool
	send   func(ask func() error)
}

// dispatch sends the next request unless one is in flight.
func (s *attached) dispatch(o *outbox) {
	switch {
	case o.busy:
	case o.resize:
		o.resize, o.busy = false, true
		o.send(s.resize)
	case len(o.typed) > 0:
		keys := o.typed[:min(len(o.typed), 4<<10)]
		o.typed, o.busy = o.typed[len(keys):], true
		o.send(func() error { return s.t.send(&tooldv1.SendInputRequest{Data: keys}) })
	}
}

func (s *attached) resize() error {
	columns, rows, err := term.GetSize(int(s.out.Fd()))
	if err != nil || columns < 1 || rows < 1 {
		return nil //nolint:nilerr // without a size of this terminal the call keeps its size
	}
	return s.t.send(&tooldv1.SendInputRequest{Resize: &tooldv1.TerminalSize{Rows: int32(rows), Columns: int32(columns)}})
}

// show prints the output of the call until the call has ended.
func (s *attached) show(ctx context.Context) error {
	caughtUp, over := false, false
	f := follower{
		say: func(string) {}, patience: callPatience, pause: sleep, done: func() bool { return over },
		open: func(ctx context.Context, cursor string) (frames, error) {
			request := &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_CallId{CallId: s.t.id}, Follow: true, Cursor: cursor}
			if cursor == "" {
				request.AfterSequence = new(int64)
			}
			return framesOf(s.t.c.calls.WatchCalls(ctx, request))
		},
		take: func(_ context.Context, f *tooldv1.Frame) error {
			caughtUp = caughtUp || f.GetCaughtUp() != nil
			if st := f.GetSnapshot().GetStatus(); isEnd(st) {
				s.status, over = st, true
			}
			for _, e := range f.GetEvents() {
				if end := e.GetFinished(); end != nil {
					s.status, over = end.GetStatus(), true
				}
				if err := s.write(e.GetOutput().GetData(), caughtUp); err != nil {
					return err
				}
			}
			return nil
		},
	}
	return f.run(ctx)
}

func (s *attached) write(b []byte, live bool) error {
	if len(b) == 0 {
		return nil
	}
	_, err := s.out.Write(s.filter.show(b, live))
	return err
}

// read delivers typed keys until ctx is done. Later input stays for the next program.
func (s *attached) read(ctx context.Context, in int) {
	defer close(s.keys)
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	defer r.Close()
	stop := context.AfterFunc(ctx, func() { w.Close() })
	defer func() {
		if stop() {
			w.Close()
		}
	}()
	inbox.Keys(in, r, s.keys, ctx.Done())
}
