package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// batchFlags holds the flags that apply to the batch as a whole.
type batchFlags struct {
	id, run, thread, strategy, replay, cursor string
	maxParallel                               int32
	failFast, watch, noReconnect              bool
}

func batchCommand(a *App) *cobra.Command {
	var f batchFlags
	c := &cobra.Command{
		Use:   "batch [FILE | -]",
		Short: "Run the calls of one model turn",
		Long: `Runs the calls of one model turn and shows the outcome of each. The command
reads the calls from a file or from standard input, as a JSON list or as a
sequence of JSON objects. The members of a call are:

  tool           the id of the tool
  arguments      an object, or the JSON text of an object
  call_id        optional
  model_call_id  optional

When a call waits for a decision, the other calls continue as far as the
strategy permits. Then the command exits with code 3. The batch continues after
the decision. With --watch the command waits for the decision.

When you repeat --batch-id with the same calls, the command attaches to the
existing batch and starts no second one.

Strategies:

  sequential  one call after the other
  auto        adjacent calls that may run together run together
  parallel    all calls together`,
		Example: `  toold batch turn.json
  toold batch turn.json --batch-id turn-0000000017 --watch -o json
  jq -c '.[]' turn.json | toold batch - --strategy auto`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return Usagef("%s takes one FILE", c.CommandPath())
			}
			return nil
		},
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			spec, err := f.spec(a, args)
			if err != nil {
				return err
			}
			return followBatch(ctx, a, c, spec, &f)
		}),
	}
	flags := c.Flags()
	flags.StringVar(&f.id, "batch-id", "", "an id that you choose, 16 to 64 characters; a repeated id attaches to the existing batch")
	flags.StringVar(&f.run, "run", "", "the run that the calls belong to")
	flags.StringVar(&f.thread, "thread", "", "the thread of the run")
	flags.StringVar(&f.strategy, "strategy", "sequential", "sequential, auto or parallel")
	flags.Int32Var(&f.maxParallel, "max-parallel", 0, "largest number of calls that run at once; 0 means no limit")
	flags.BoolVar(&f.failFast, "fail-fast", false, "start no further calls after a call that did not succeed")
	flags.StringVar(&f.replay, "replay", "immediate", "when calls resume after their answers: immediate or all-decided")
	flags.BoolVar(&f.watch, "watch", false, "wait for decisions, until the batch ends")
	flags.StringVar(&f.cursor, "cursor", "", "with --batch-id: show the events after this cursor")
	flags.BoolVar(&f.noReconnect, "no-reconnect", false, "exit when the connection breaks")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}

func (f *batchFlags) spec(a *App, args []string) (*tooldv1.BatchSpec, error) {
	spec := &tooldv1.BatchSpec{BatchId: f.id, MaxParallel: f.maxParallel, FailFast: f.failFast}
	strategy, ok := tooldv1.BatchStrategy_value["BATCH_STRATEGY_"+strings.ToUpper(f.strategy)]
	if !ok || strategy == 0 {
		return nil, Usagef("--strategy: %q is none of sequential, auto and parallel", f.strategy)
	}
	replay, ok := tooldv1.BatchReplay_value["BATCH_REPLAY_"+strings.ToUpper(strings.ReplaceAll(f.replay, "-", "_"))]
	if !ok || replay == 0 {
		return nil, Usagef("--replay: %q is neither immediate nor all-decided", f.replay)
	}
	spec.Strategy, spec.Replay = tooldv1.BatchStrategy(strategy), tooldv1.BatchReplay(replay)
	if f.id == "" { // the id lets the client find the batch again after a broken connection
		if f.cursor != "" {
			return nil, Usagef("--cursor needs --batch-id")
		}
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		spec.BatchId = id.String()
	}
	text, err := batchText(a, args)
	if err != nil {
		return nil, err
	}
	if spec.Calls, err = parseBatch(text); err != nil {
		return nil, usageError{err}
	}
	for _, call := range spec.Calls {
		if f.run != "" || f.thread != "" {
			call.Run = &tooldv1.Run{RunId: f.run, ThreadId: f.thread}
		}
	}
	return spec, nil
}

func batchText(a *App, args []string) (string, error) {
	if len(args) == 0 || args[0] == "-" {
		return a.ReadInput()
	}
	b, err := os.ReadFile(args[0])
	return string(b), err
}

// A batchCall is one call in the JSON form that people and scripts write.
type batchCall struct {
	Tool        string          `json:"tool"`
	Arguments   json.RawMessage `json:"arguments"`
	CallID      string          `json:"call_id"`
	ModelCallID string          `json:"model_call_id"`
}

// parseBatch reads a JSON list of calls, or a sequence of JSON calls.
func parseBatch(text string) (calls []*tooldv1.CallSpec, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	list := strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "[")
	if list {
		if _, err := d.Token(); err != nil {
			return nil, err
		}
	}
	for n := 1; d.More(); n++ {
		var c batchCall
		if err := d.Decode(&c); err != nil {
			return nil, fmt.Errorf("call %d: %w", n, err)
		}
		spec := &tooldv1.CallSpec{Tool: c.Tool, CallId: c.CallID, ModelCallId: c.ModelCallID, Arguments: string(c.Arguments)}
		if strings.HasPrefix(spec.Arguments, `"`) { // models send the arguments as a JSON string that contains JSON
			if err := json.Unmarshal(c.Arguments, &spec.Arguments); err != nil {
				return nil, fmt.Errorf("call %d: %w", n, err)
			}
		}
		calls = append(calls, spec)
	}
	if list {
		if _, err := d.Token(); err != nil {
			return nil, fmt.Errorf("the list does not end: %w", err)
		}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the calls")
	}
	if len(calls) == 0 {
		return nil, errors.New("there are no calls")
	}
	return calls, nil
}

// followBatch shows the progress of a batch until every call has ended or waits for a decision. Then it prints the outcome of each call.
func followBatch(ctx context.Context, a *App, client *client, spec *tooldv1.BatchSpec, how *batchFlags) error {
	p := a.newPrinter(client, true)
	defer p.close()
	p.screen.wait("calling")
	var done *tooldv1.BatchFinished
	f := follower{
		say: p.screen.say, patience: callPatience, cursor: how.cursor, pause: sleep,
		take: func(ctx context.Context, frame *tooldv1.Frame) error {
			if frame.GetBatchFinished() != nil {
				done = frame.GetBatchFinished()
			}
			return p.take(ctx, frame)
		},
		done: func() bool { return done != nil },
		open: func(ctx context.Context, cursor string) (frames, error) {
			return framesOf(client.calls.ExecuteBatch(ctx, &tooldv1.ExecuteBatchRequest{Spec: spec, Cursor: cursor, WaitForDecision: how.watch}))
		},
	}
	if how.noReconnect {
		f.patience = 0
	}
	err := f.run(ctx)
	if ctx.Err() != nil {
		p.screen.say(fmt.Sprintf("detached; the batch continues\n  %[1]s watch --batch %[2]s\n  %[1]s cancel --batch %[2]s\n", a.Program(), spec.GetBatchId()))
	}
	if err != nil {
		return err
	}
	p.screen.wait("")
	if a.Output != FormJSONL { // with jsonl, the outcome was printed as the last frame
		if err := a.Print(done, a.OutView().Batch(done)); err != nil {
			return err
		}
	}
	return endOfBatch(done)
}

// endOfBatch returns the exit code of a batch. A call that waits for a decision takes precedence over a failed call, and a failed call over
// a cancelled one.
func endOfBatch(b *tooldv1.BatchFinished) error {
	if len(b.GetOpen()) > 0 {
		return ending(ExitSuspended)
	}
	for _, status := range []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_FAILED, tooldv1.CallStatus_CALL_STATUS_CANCELLED} {
		for _, r := range b.GetResults() {
			if r.GetStatus() == status {
				return endOf(status)
			}
		}
	}
	return nil
}
