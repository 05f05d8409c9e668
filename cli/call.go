package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/setting"
)

// callFlags holds the flags that call and describe share.
type callFlags struct {
	json, callID, run, thread, agent, onBehalfOf, retryOf string
	unattended                                            bool
	timeout                                               time.Duration
}

func (f *callFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.json, "json", "", "the arguments as JSON text")
	c.Flags().StringVar(&f.run, "run", "", "the run that the call belongs to")
	c.Flags().StringVar(&f.thread, "thread", "", "the thread of the run")
	c.Flags().StringVar(&f.agent, "agent", "", "id of the agent that makes the call")
	c.Flags().StringVar(&f.onBehalfOf, "on-behalf-of", "", "the subject for which you make the call (role delegate)")
	c.Flags().BoolVar(&f.unattended, "unattended", false, "no person is present to answer")
}

// ArgumentsHelp is the help text for commands that take the arguments of a call.
const ArgumentsHelp = `Forms of the arguments:

  key=value    toold converts the value to the type in the tool's schema; for a
               list, repeat the key for each element
  key:=json    the value is JSON
  --json TEXT  all arguments as one JSON text
  -            all arguments as one JSON text, from standard input`

// spec builds the call from flags and words. It asks the daemon for the tool's schema only when there are key=value words.
func (f *callFlags) spec(ctx context.Context, a *App, c *client, args []string) (*tooldv1.CallSpec, error) {
	tool, words := args[0], args[1:]
	spec := &tooldv1.CallSpec{Tool: tool, CallId: f.callID, RetryOf: f.retryOf}
	switch {
	case f.json != "" && len(words) > 0:
		return nil, Usagef("--json contains all arguments; remove %q", words[0])
	case f.json != "":
		spec.Arguments = f.json
	case len(words) == 1 && words[0] == "-":
		text, err := a.ReadInput()
		if err != nil {
			return nil, err
		}
		spec.Arguments = text
	case len(words) > 0:
		got, err := c.tools.GetTool(ctx, &tooldv1.GetToolRequest{Tool: tool})
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", tool, err)
		}
		if spec.Arguments, err = ArgumentsOf(words, got.GetTool().GetParameters()); err != nil {
			return nil, err
		}
	}
	if f.run != "" || f.thread != "" || f.agent != "" || f.onBehalfOf != "" || f.unattended {
		spec.Run = &tooldv1.Run{RunId: f.run, ThreadId: f.thread, OnBehalfOf: f.onBehalfOf}
		if f.agent != "" {
			spec.Run.Agent = &tooldv1.Agent{AgentId: f.agent}
		}
		if f.unattended {
			spec.Run.Mode = tooldv1.RunMode_RUN_MODE_UNATTENDED
		}
	}
	if f.timeout > 0 {
		spec.Timeouts = &tooldv1.Timeouts{Attempt: durationpb.New(f.timeout)}
	}
	return spec, nil
}

func callCommand(a *App) *cobra.Command {
	var f callFlags
	var watch, noReconnect bool
	var cursor, linger string
	c := &cobra.Command{
		Use:   "call TOOL [key=value … | --json '{…}' | -]",
		Short: "Call a tool and show its result",
		Long: `Calls a tool. Progress goes to standard error, the result to standard output.

When the call waits for a decision, the command exits with code 3. The call
continues after the decision. With --watch the command waits for the decision.

` + ArgumentsHelp + `

When you repeat a --call-id, the command attaches to the existing call and
starts no second one.`,
		Example: `  toold call grep pattern=TODO path=src
  toold call edit --json '{"path":"a.txt","old_text":"x","new_text":"y"}'
  jq -n '{command: "make"}' | toold call bash - --watch
  toold call bash command='make test' -o json`,
		Args:              AtLeast("a TOOL"),
		ValidArgsFunction: a.completeTools,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.dial()
			if err != nil {
				return err
			}
			defer client.close()
			spec, err := f.spec(c.Context(), a, client, args)
			if err != nil {
				return err
			}
			if err := setLinger(spec, linger); err != nil {
				return err
			}
			if spec.CallId == "" { // the id lets the client find the call again after a broken connection
				if cursor != "" {
					return Usagef("--cursor needs --call-id")
				}
				id, err := uuid.NewV7()
				if err != nil {
					return err
				}
				spec.CallId = id.String()
			}
			return followCall(c.Context(), a, client, following{id: spec.GetCallId(), cursor: cursor, throughDecisions: watch, noReconnect: noReconnect}, func(ctx context.Context, cursor string) (frames, error) {
				return framesOf(client.calls.ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: spec, Cursor: cursor, WaitForDecision: watch}))
			})
		},
	}
	f.add(c)
	c.Flags().StringVar(&f.callID, "call-id", "", "an id that you choose, 16 to 64 characters; a repeated id attaches to the existing call")
	c.Flags().StringVar(&f.retryOf, "retry-of", "", "id of the ended call that this call repeats")
	c.Flags().DurationVar(&f.timeout, "timeout", 0, "longest time of an attempt")
	c.Flags().StringVar(&linger, "linger", "", "time without a watcher after which the daemon cancels the call; never: do not cancel it")
	c.Flags().BoolVar(&watch, "watch", false, "wait for decisions, until the call ends")
	c.Flags().StringVar(&cursor, "cursor", "", "with --call-id: show the events after this cursor")
	c.Flags().BoolVar(&noReconnect, "no-reconnect", false, "exit when the connection breaks")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	_ = c.RegisterFlagCompletionFunc("call-id", a.completeCalls)
	return c
}

func setLinger(spec *tooldv1.CallSpec, text string) error {
	if text == "" {
		return nil
	}
	d, err := setting.ParseDuration(text)
	switch {
	case err != nil:
		return Usagef("--linger: %w", err)
	case d == setting.Never:
		spec.LingerNever = true
	case d < 0:
		return Usagef("--linger: %s is negative", text)
	default:
		spec.Linger = durationpb.New(d)
	}
	return nil
}

const callPatience = 2 * time.Minute // how long a command tries to reconnect before it gives up

// following holds the settings for following a call.
type following struct {
	id, cursor       string
	throughDecisions bool
	noReconnect      bool
}

// followCall shows a call until its stream ends normally. It returns the exit code that matches the call's status.
func followCall(ctx context.Context, a *App, client *client, how following, open func(context.Context, string) (frames, error)) error {
	p := a.newPrinter(client, false)
	defer p.close()
	p.callID = how.id
	p.screen.wait("calling")
	patience := callPatience
	if how.noReconnect {
		patience = 0
	}
	f := follower{
		open: open, take: p.take, say: p.screen.say, patience: patience, cursor: how.cursor, pause: sleep,
		done: func() bool {
			return isEnd(p.status) || !how.throughDecisions && p.status == tooldv1.CallStatus_CALL_STATUS_SUSPENDED
		},
	}
	err := f.run(ctx)
	if ctx.Err() != nil && p.status != 0 {
		p.screen.say(fmt.Sprintf("detached; the call continues until its linger time is over\n  %[1]s watch %[2]s\n  %[1]s cancel %[2]s\n", a.Program(), how.id))
	}
	if err != nil {
		return err
	}
	return p.finish(ctx)
}

func isEnd(s tooldv1.CallStatus) bool {
	switch s {
	case tooldv1.CallStatus_CALL_STATUS_SUCCEEDED, tooldv1.CallStatus_CALL_STATUS_FAILED, tooldv1.CallStatus_CALL_STATUS_CANCELLED:
		return true
	default:
		return false
	}
}
