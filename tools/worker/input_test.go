package worker_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/tooltest"
	"github.com/toold-dev/toold/tools/worker"
)

// typing starts a call that takes input. It returns the worker's lease, the writer for the input, and the outcome.
func (w *world) typing(l *line) (lease string, keys *io.PipeWriter, done <-chan outcome) {
	w.t.Helper()
	r, keys := io.Pipe()
	out := make(chan outcome, 1)
	go func() {
		result, err := w.registry.get("a").Execute(w.t.Context(), &tool.Call{ID: "c", Tool: "a", Reporter: &tooltest.Recorder{Keys: r}})
		out <- outcome{result, err}
	}()
	leases := l.leases()
	return leases[len(leases)-1], keys, out
}

func (l *line) input() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.inputs)
}

// expectInput compares the input that a worker got with the expected input, and clears the record.
func (l *line) expectInput(t *testing.T, want ...string) {
	t.Helper()
	if got := l.input(); !slices.Equal(got, want) {
		t.Errorf("input received\n%q\nwant\n%q", got, want)
	}
	l.mu.Lock()
	l.inputs = nil
	l.mu.Unlock()
}

// TestInput checks that each byte arrives once, in order and only on request, and that the end of input follows the last byte.
func TestInput(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		s, l, _ := w.connect(offer("a"))
		lease, keys, done := w.typing(l)
		read := func(position int64, most int) {
			if err := s.ReadInput(lease, position, most, false); err != nil {
				t.Fatal(err)
			}
		}
		read(0, 0)
		l.expectInput(t, `0 "" false <nil>`)
		read(0, 4)
		l.expectInput(t) // The worker has requested input, but nothing was typed yet.
		_, _ = keys.Write([]byte("one"))
		l.expectInput(t, `0 "one" false <nil>`)
		read(3, 2)
		read(3, 2) // The worker repeats its request, as after a broken connection.
		go func() { _, _ = keys.Write([]byte("two")); _ = keys.Close() }()
		l.expectInput(t, `3 "tw" false <nil>`)
		read(3, 1)
		l.expectInput(t, `3 "t" false <nil>`)
		read(4, 100) // The worker repeats its request, but already has the first byte of the piece.
		l.expectInput(t, `4 "w" false <nil>`)
		read(5, 1<<30)
		l.expectInput(t, `5 "o" false <nil>`)
		read(6, 100)
		l.expectInput(t, `6 "" true <nil>`)
		read(6, 100)
		l.expectInput(t, `6 "" true <nil>`)
		for _, p := range []int64{-1, 0, 7, 1 << 62} {
			read(p, 10)
			if got := l.input(); len(got) != 1 || !strings.Contains(got[0], "does not continue at this position") {
				t.Errorf("from %d: %q", p, got)
			}
			l.inputs = nil
		}
		_ = s.Finish(lease, tool.Text("done"), nil)
		if out := <-done; out.err != nil {
			t.Error(out.err)
		}
		if err := s.ReadInput(lease, 6, 10, false); !errors.Is(err, worker.ErrNotHeld) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// The connection breaks while a piece is sent. TestInputOverReconnect checks that the piece is sent again, and that input that is typed
// without a connection arrives later.
func TestInputOverReconnect(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		s, l, _ := w.connect(offer("a"))
		lease, keys, done := w.typing(l)
		_ = s.ReadInput(lease, 0, 10, false)
		_, _ = keys.Write([]byte("one"))
		l.expectInput(t, `0 "one" false <nil>`) // This message is lost, because the connection breaks.
		s.Close(false)
		o := offer("a")
		o.Held = []string{lease}
		s2, l2, _ := w.connect(o)
		_ = s2.ReadInput(lease, 0, 10, false)
		l2.expectInput(t, `0 "one" false <nil>`)
		_ = s2.ReadInput(lease, 3, 10, false)
		s2.Close(false)
		_, _ = keys.Write([]byte("two")) // No worker is connected now.
		l2.expectInput(t)
		s3, l3, _ := w.connect(o)
		if err := s2.ReadInput(lease, 3, 10, false); !errors.Is(err, worker.ErrNotHeld) {
			t.Errorf("T61: the old connection reads: %v", err)
		}
		_ = s3.ReadInput(lease, 3, 10, false)
		l3.expectInput(t, `3 "two" false <nil>`)
		_ = s3.ReadInput(lease, 6, 0, true) // The worker wants no more input.
		l3.expectInput(t, `6 "" true <nil>`)
		if _, err := keys.Write([]byte("x")); err == nil {
			t.Error("typed into what takes no more")
		}
		_ = s3.Finish(lease, tool.Text("done"), nil)
		<-done
	})
}

// The test checks that only the worker that holds the lease gets input, and only until the lease ends.
func TestT61InputIsTheHolders(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		s, l, _ := w.connect(offer("a"))
		thief, thiefLine, _ := w.connect(offer("b"))
		lease, keys, done := w.typing(l)
		if err := thief.ReadInput(lease, 0, 10, false); !errors.Is(err, worker.ErrNotHeld) {
			t.Errorf("the thief reads: %v", err)
		}
		_ = s.ReadInput(lease, 0, 10, false)
		s.Close(true)
		if out := <-done; !errors.Is(out.err, tool.ErrLost) {
			t.Error(out.err)
		}
		if _, err := keys.Write([]byte("secret")); err == nil {
			t.Error("typed into a call whose attempt is lost")
		}
		thiefLine.expectInput(t)
		l.expectInput(t)
	})
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) { // The call has no input.
		s, l, _ := w.connect(offer("a"))
		done := w.call(t.Context(), "a", nil)
		lease := l.leases()[0]
		if err := s.ReadInput(lease, 0, 10, false); err != nil {
			t.Error(err)
		}
		l.expectInput(t, `0 "" false `+tool.ErrNoReporter.Error())
		_ = s.Finish(lease, tool.Text("done"), nil)
		<-done
	})
}

// FuzzReadInput checks that a worker never gets other bytes than those that were typed, for any request.
func FuzzReadInput(f *testing.F) {
	f.Add([]byte{0, 3, 0, 3, 2, 0, 5, 9, 0}, []byte("hello world"))
	f.Fuzz(func(t *testing.T, asks, typed []byte) {
		inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
			s, l, _ := w.connect(offer("a"))
			lease, keys, done := w.typing(l)
			go func() { _, _ = keys.Write(typed); _ = keys.Close() }()
			defer keys.Close() // Closes the pipe even when no request reads it.
			for ; len(asks) > 2; asks = asks[3:] {
				_ = s.ReadInput(lease, int64(int8(asks[0])), int(int8(asks[1])), asks[2] == 255)
				synctest.Wait()
			}
			for _, one := range l.given() {
				if end := one.position + int64(len(one.data)); one.position < 0 || end > int64(len(typed)) || !bytes.Equal(one.data, typed[one.position:end]) {
					t.Errorf("given %q at %d of %q", one.data, one.position, typed)
				}
			}
			_ = s.Finish(lease, tool.Text("done"), nil)
			<-done
		})
	})
}

type piece struct {
	position int64
	data     []byte
}

func (l *line) given() []piece {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.pieces)
}

// The test checks a worker that repeats a request with a smaller limit, for example over another connection. The worker gets no more bytes
// than this limit allows, and gets the rest with its next request.
func TestInputAskedAgain(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		s, l, _ := w.connect(offer("a"))
		lease, keys, done := w.typing(l)
		_ = s.ReadInput(lease, 0, 10, false)
		synctest.Wait()
		_ = s.ReadInput(lease, 0, 2, false)
		_, _ = keys.Write([]byte("abcdef"))
		l.expectInput(t, `0 "ab" false <nil>`)
		_ = s.ReadInput(lease, 2, 10, false)
		l.expectInput(t, `2 "cdef" false <nil>`)
		_ = s.Finish(lease, tool.Text("done"), nil)
		<-done
	})
}

// lingering is an input whose Read still returns bytes shortly after Close.
type lingering struct{ closed chan struct{} }

func (k *lingering) Read(p []byte) (int, error) {
	<-k.closed
	time.Sleep(time.Millisecond)
	return copy(p, "late"), nil
}

func (k *lingering) Close() error {
	select {
	case <-k.closed:
	default:
		close(k.closed)
	}
	return nil
}

// The test checks that input that is read just after the tool closed the input does not reach the worker.
func TestInputEndsWithClose(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		s, l, _ := w.connect(offer("a"))
		out := make(chan error, 1)
		go func() {
			_, err := w.registry.get("a").Execute(w.t.Context(), &tool.Call{ID: "c", Tool: "a", Reporter: &tooltest.Recorder{Keys: &lingering{make(chan struct{})}}})
			out <- err
		}()
		lease := l.leases()[0]
		_ = s.ReadInput(lease, 0, 10, false)
		synctest.Wait()
		_ = s.ReadInput(lease, 0, 0, true)
		time.Sleep(time.Second)
		_ = s.ReadInput(lease, 0, 10, false)
		l.expectInput(t, `0 "" true <nil>`, `0 "" true <nil>`)
		_ = s.Finish(lease, tool.Text("done"), nil)
		if err := <-out; err != nil {
			t.Error(err)
		}
	})
}

// slowly is a reporter whose Input takes a second and may be called only once.
type slowly struct {
	tooltest.Recorder
	asked atomic.Int32
}

func (r *slowly) Input(c tool.Controls) (io.ReadCloser, error) {
	if r.asked.Add(1) > 1 {
		return nil, errors.New("the call already takes input")
	}
	time.Sleep(time.Second)
	return r.Recorder.Input(c)
}

// The test breaks a connection while the daemon opens the input for the first request. It checks that the worker gets its input over the
// next connection only.
func TestInputOpensOverReconnect(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		s, l, _ := w.connect(offer("a"))
		r, keys := io.Pipe()
		out := make(chan error, 1)
		go func() {
			_, err := w.registry.get("a").Execute(w.t.Context(), &tool.Call{ID: "c", Tool: "a", Reporter: &slowly{Recorder: tooltest.Recorder{Keys: r}}})
			out <- err
		}()
		lease := l.leases()[0]
		first := make(chan error, 1)
		go func() { first <- s.ReadInput(lease, 0, 0, false) }()
		synctest.Wait()
		s.Close(false)
		o := offer("a")
		o.Held = []string{lease}
		s2, l2, _ := w.connect(o)
		if err := s2.ReadInput(lease, 0, 0, false); err != nil {
			t.Error(err)
		}
		l2.expectInput(t, `0 "" false <nil>`)
		if err := <-first; !errors.Is(err, worker.ErrNotHeld) {
			t.Errorf("T61: the old connection has input: %v", err)
		}
		l.expectInput(t)
		_ = s2.ReadInput(lease, 0, 10, false)
		_, _ = keys.Write([]byte("one"))
		l2.expectInput(t, `0 "one" false <nil>`)
		_ = s2.Finish(lease, tool.Text("done"), nil)
		if err := <-out; err != nil {
			t.Error(err)
		}
	})
}
