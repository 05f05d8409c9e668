package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/sdk/go/worker"
)

// addInputs adds tools that read input to a worker.
func addInputs(w *worker.Worker) {
	worker.Add(w, worker.Tool{ID: "types", Observe: true}, func(ctx context.Context, c *worker.Call, _ testArgs) (string, error) {
		in, err := c.Input(ctx)
		if err != nil {
			return "", err
		}
		var lines []string
		all := bufio.NewScanner(in)
		for all.Scan() {
			lines = append(lines, all.Text())
			c.Output("stdout", []byte(all.Text()+"\n"))
		}
		return strings.Join(lines, " "), all.Err()
	})
	worker.Add(w, worker.Tool{ID: "reads_one", Observe: true}, func(ctx context.Context, c *worker.Call, _ testArgs) (string, error) {
		in, err := c.Input(ctx)
		if err != nil {
			return "", err
		}
		defer in.Close()
		line, err := bufio.NewReader(in).ReadString('\n')
		return strings.TrimSpace(line), err
	})
}

// types sends pieces of input to a call, each after the previous one was accepted, and then the end of input. A call that ends before it
// has read everything is not an error.
func (p *proc) types(t *testing.T, id string, pieces ...string) {
	position := int64(0)
	for i, piece := range append(pieces, "") {
		eventually(t, fmt.Sprintf("%s takes %q", id, piece), func() bool {
			r, err := p.calls.SendInput(t.Context(), &tooldv1.SendInputRequest{
				CallId: id, Data: []byte(piece), Position: &position, EndOfInput: i == len(pieces),
			})
			if err != nil {
				return reasonOf(err) == "INPUT_ENDED" || reasonOf(err) == "NOT_RUNNING"
			}
			position = r.GetPosition()
			return true
		})
	}
}

// A cable forwards connections to a daemon. The test can cut the open connections.
type cable struct {
	lis net.Listener
	to  string

	mu    sync.Mutex
	conns []net.Conn
	done  sync.WaitGroup
}

func layCable(t *testing.T, to string) *cable {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c := &cable{lis: lis, to: to}
	c.done.Go(c.serve)
	t.Cleanup(func() { lis.Close(); c.cut(); c.done.Wait() })
	return c
}

func (c *cable) serve() {
	for {
		in, err := c.lis.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", c.to)
		if err != nil {
			in.Close()
			continue
		}
		c.mu.Lock()
		c.conns = append(c.conns, in, out)
		c.mu.Unlock()
		for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
			c.done.Go(func() {
				_, _ = io.Copy(way[0], way[1])
				way[0].Close()
			})
		}
	}
}

// cut closes all connections. New connections are accepted.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// Input is neither lost nor repeated when the worker's connection breaks while a caller types.
func TestWorkerInputOverReconnect(t *testing.T) { inEach(t, workerInputOverReconnect) }

func workerInputOverReconnect(t *testing.T, l language) {
	p := newSite(t, "").start("--workers-lease", "1m") // the worker reconnects long before the lease ends
	c := layCable(t, p.ready.TCP)
	p.worker(l, c.lis.Addr().String(), p.token())
	const id = "typed-over-reconnects"
	p.begin(id, "types", "{}")
	position, want := int64(0), ""
	for i := range 5 {
		line := fmt.Sprintf("line-%d\n", i)
		want += line
		eventually(t, "it is typed", func() bool {
			r, err := p.calls.SendInput(t.Context(), &tooldv1.SendInputRequest{CallId: id, Attempt: 1, Data: []byte(line), Position: &position, EndOfInput: i == 4})
			if err == nil {
				position = r.GetPosition()
			}
			return err == nil
		})
		c.cut() // the cut comes before, while or after the worker gets the line
	}
	got := p.get(id)
	if got.GetResult().GetMessage() != strings.Join(strings.Fields(want), " ") || len(got.GetAttempts()) != 1 {
		t.Errorf("typed: %v\n%s", got, p.log)
	}
}

// The daemon refuses input for a call that takes none. It refuses signals for the call of a worker, even if the call takes input.
func TestWorkerTakesNoInput(t *testing.T) {
	p := newSite(t, "").start("--workers-lease", "5s")
	p.worker(languages()[0], p.ready.TCP, p.token())
	const id = "nobody-types-into-it"
	file := t.TempDir() + "/held"
	p.begin(id, "held", fmt.Sprintf(`{"file":%q}`, file))
	awaitLines(t, file, 1)
	_, err := p.calls.SendInput(t.Context(), &tooldv1.SendInputRequest{CallId: id, Data: []byte("x")})
	if status.Code(err) != codes.FailedPrecondition || reasonOf(err) != "NO_INPUT" {
		t.Errorf("typed into it: %v", err)
	}
	const other = "signals-do-not-reach-it"
	p.begin(other, "types", "{}")
	signal := tooldv1.InputSignal_INPUT_SIGNAL_INTERRUPT
	eventually(t, "it takes input", func() bool {
		_, err = p.calls.SendInput(t.Context(), &tooldv1.SendInputRequest{CallId: other, Signal: &signal})
		return reasonOf(err) != "NO_INPUT"
	})
	if reasonOf(err) != "NO_SIGNALS" {
		t.Errorf("a signal: %v", err)
	}
}
