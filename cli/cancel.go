package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func cancelCommand(a *App) *cobra.Command {
	var reason, run, thread, batch string
	var wait time.Duration
	c := &cobra.Command{
		Use:   "cancel CALL | --run RUN | --thread THREAD | --batch BATCH",
		Short: "Cancel a call, or all open calls of a run, thread or batch",
		Long: `Requests the end of a call. A result that is complete before the tool stops is
kept.

With --wait the command waits until the call has ended. Then it lists the killed
processes, and the time when the daemon saw that they no longer existed.`,
		Example: "  toold cancel CALL --wait 10s\n  toold cancel --run r-17 --reason 'user left'",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return Usagef("%s takes one CALL", c.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: a.completeCalls,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			many := &tooldv1.CancelCallsRequest{Reason: reason}
			n := len(args)
			if run != "" {
				n++
				many.Selector = &tooldv1.CancelCallsRequest_RunId{RunId: run}
			}
			if thread != "" {
				n++
				many.Selector = &tooldv1.CancelCallsRequest_ThreadId{ThreadId: thread}
			}
			if batch != "" {
				n++
				many.Selector = &tooldv1.CancelCallsRequest_BatchId{BatchId: batch}
			}
			switch {
			case n != 1:
				return Usagef("cancel takes one of CALL, --run, --thread and --batch")
			case len(args) == 0 && wait > 0:
				return Usagef("--wait needs a CALL")
			case len(args) == 0:
				return cancelMany(ctx, a, c, many)
			}
			return cancelOne(ctx, a, c, &tooldv1.CancelCallRequest{CallId: args[0], Reason: reason, Wait: durationpb.New(wait)})
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "reason, stored in the record of the call")
	c.Flags().StringVar(&run, "run", "", "all open calls of this run")
	c.Flags().StringVar(&thread, "thread", "", "all open calls of this thread")
	c.Flags().StringVar(&batch, "batch", "", "all open calls of this batch; calls that have not started will not start")
	c.Flags().DurationVar(&wait, "wait", 0, "longest time to wait for the end of the call")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}

func cancelOne(ctx context.Context, a *App, c *client, request *tooldv1.CancelCallRequest) error {
	got, err := c.calls.CancelCall(ctx, request)
	if err != nil {
		return err
	}
	call := got.GetCall()
	text := show.Status(call.GetStatus()) + "  " + show.Line(call.GetCallId()) + "\n" + a.OutView().Processes(got.GetProcesses())
	switch {
	case !isEnd(call.GetStatus()):
		text += "the cancel is requested; to watch the call: " + a.Program() + " watch " + show.Line(call.GetCallId()) + "\n"
	case call.GetCancelRequest() == nil:
		text += "the call had already ended\n"
	case call.GetStatus() != tooldv1.CallStatus_CALL_STATUS_CANCELLED:
		text += "the call was complete before it could be stopped\n"
	case call.GetExecuted() == tooldv1.Executed_EXECUTED_UNKNOWN:
		text += "the end of its tool was not observed: it may have taken effect, and may still run\n"
	case got.GetProcesses() == nil:
		text += "no process had to be killed\n"
	}
	if err := a.Print(got, text); err != nil {
		return err
	}
	switch {
	case got.GetProcesses().GetKillUnverified():
		return ending(ExitFailed)
	case request.GetWait().AsDuration() > 0 && !isEnd(call.GetStatus()):
		return codedError{errors.New("the call did not end within the time of --wait"), ExitFailed}
	}
	return nil
}

func cancelMany(ctx context.Context, a *App, c *client, request *tooldv1.CancelCallsRequest) error {
	got, err := c.calls.CancelCalls(ctx, request)
	if err != nil {
		return err
	}
	text := ""
	for _, id := range got.GetCallIds() {
		text += show.Line(id) + "\n"
	}
	if err := a.Print(got, text); err != nil {
		return err
	}
	_, err = io.WriteString(a.Err, fmt.Sprintf("%d calls will end\n", len(got.GetCallIds())))
	return err
}
