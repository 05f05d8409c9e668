package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func waiting() *tooldv1.ListCallsRequest {
	return &tooldv1.ListCallsRequest{
		Statuses: []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_SUSPENDED},
		Order:    tooldv1.CallOrder_CALL_ORDER_OLDEST_FIRST,
		PageSize: 25,
	}
}

// eachWaiting invokes take for each suspended call, oldest first, until take returns false.
func eachWaiting(ctx context.Context, c *client, request *tooldv1.ListCallsRequest, take func(*tooldv1.Call) bool) error {
	for {
		page, err := c.calls.ListCalls(ctx, request)
		if err != nil {
			return err
		}
		for _, call := range page.GetCalls() {
			if call.GetSuspension() != nil && !take(call) {
				return nil
			}
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return nil
		}
	}
}

// subagentAction is the action of a suspension in which a subagent waits for the calls that it made.
const subagentAction = "subagent"

// eachQuestion is like eachWaiting, but skips subagents that wait for their own calls, because the user answers those calls instead. A
// request for [subagentAction] does not skip them.
func eachQuestion(ctx context.Context, c *client, request *tooldv1.ListCallsRequest, take func(*tooldv1.Call) bool) error {
	return eachWaiting(ctx, c, request, func(call *tooldv1.Call) bool {
		return call.GetSuspension().GetAction() == subagentAction && request.GetAction() == "" || take(call)
	})
}

func inboxCommand(a *App) *cobra.Command {
	var action, run, thread string
	var limit int
	var list, soonest bool
	var c *cobra.Command
	c = &cobra.Command{
		Use:   "inbox [SUSPENSION|CALL]",
		Short: "Decide suspended calls one by one, or list them",
		Long: `Shows the calls that wait for a decision. On a terminal the inbox is
interactive:

  j, k   selects another call
  enter  shows the whole ticket
  a      approves the call, or answers its question
  e      edits the arguments in $VISUAL or $EDITOR
  d      declines the call, with a reason
  q      quits

The last line shows all keys. Each decision needs a second key. The list updates
when calls change.

Without a terminal, and with --list, --soonest or --output, the command prints a
list, oldest calls first; with --soonest, calls that expire first.`,
		Example: `  toold inbox
  toold inbox --list
  toold inbox 0198c1
  toold inbox --action approval -o jsonl`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return Usagef("%s takes one SUSPENSION or CALL, or none for the list", c.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: a.completeWaiting,
		RunE: a.withClient(func(ctx context.Context, client *client, args []string) error {
			if len(args) == 1 {
				call, err := a.findWaiting(ctx, client, args[0])
				if err != nil {
					return err
				}
				return a.Print(call, a.OutView().Ticket(call, call.GetSuspension()))
			}
			request := waiting()
			request.Action, request.RunId, request.ThreadId = action, run, thread
			if soonest {
				request.Order = tooldv1.CallOrder_CALL_ORDER_EXPIRES_FIRST
			}
			if _, _, terminal := a.terminal(); terminal && !soonest && !list && !c.Flags().Changed("output") {
				return workThrough(ctx, a, client, request, limit)
			}
			return listWaiting(ctx, a, client, request, limit)
		}),
	}
	c.Flags().StringVar(&action, "action", "", "only calls that wait for this action: approval, input, auth, frontend, in_doubt …")
	c.Flags().StringVar(&run, "run", "", "only calls of this run")
	c.Flags().StringVar(&thread, "thread", "", "only calls of this thread")
	c.Flags().BoolVar(&list, "list", false, "print a list, also on a terminal")
	c.Flags().BoolVar(&soonest, "soonest", false, "print a list that begins with the calls that expire first")
	c.Flags().IntVarP(&limit, "limit", "n", 50, "largest number to list; 0 means all")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}

// listWaiting prints at most limit waiting calls.
func listWaiting(ctx context.Context, a *App, client *client, request *tooldv1.ListCallsRequest, limit int) error {
	var all []*tooldv1.Call
	more := false
	err := eachQuestion(ctx, client, request, func(call *tooldv1.Call) bool {
		more = limit > 0 && len(all) == limit
		if !more {
			all = append(all, call)
		}
		return !more
	})
	if err != nil {
		return err
	}
	if held := a.heldBack(ctx, client, a.errView()); held != "" {
		defer fmt.Fprintln(a.Err, held)
	}
	return a.printInbox(all, more)
}

func (a *App) printInbox(all []*tooldv1.Call, more bool) error {
	entries := make([]string, len(all))
	for i, call := range all {
		entries[i] = a.OutView().Waiting(call)
	}
	if err := printList(a, all, strings.Join(entries, "\n")); err != nil {
		return err
	}
	switch {
	case more:
		fmt.Fprintf(a.Err, "\nthere are more than these %d calls; --limit 0 lists all\n", len(all))
	case len(all) == 0:
		fmt.Fprintln(a.Err, "no call waits for a decision")
	}
	return nil
}

// findWaiting finds the suspended call that name means. name is the id of the suspension or of the call, or a unique prefix of one.
func (a *App) findWaiting(ctx context.Context, c *client, name string) (*tooldv1.Call, error) {
	var exact *tooldv1.Call
	var near []*tooldv1.Call
	err := eachWaiting(ctx, c, waiting(), func(call *tooldv1.Call) bool {
		suspension := call.GetSuspension().GetSuspensionId()
		if name == suspension || name == call.GetCallId() {
			exact = call
			return false
		}
		if strings.HasPrefix(suspension, name) || strings.HasPrefix(call.GetCallId(), name) {
			near = append(near, call)
		}
		return true
	})
	switch {
	case err != nil:
		return nil, err
	case exact != nil:
		return exact, nil
	case len(near) == 1:
		return near[0], nil
	case len(near) > 1:
		var ids strings.Builder
		for _, call := range near[:min(len(near), 5)] {
			fmt.Fprintf(&ids, "\n  %s  %s", show.Line(call.GetSuspension().GetSuspensionId()), show.Line(call.GetTool()))
		}
		return nil, Usagef("%d suspended calls begin with %q:%s", len(near), name, ids.String())
	}
	return nil, codedError{fmt.Errorf("no suspended call matches %q; %s inbox lists them", name, a.Program()), ExitNotFound}
}
