package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/setting"
)

// callFilter holds the filters of the command calls.
type callFilter struct {
	statuses                  []string
	run, thread, tool, action string
	since                     string
	limit                     int
	page                      string
	oldest                    bool
}

func callsCommand(a *App) *cobra.Command {
	var f callFilter
	c := &cobra.Command{
		Use:   "calls",
		Short: "List calls, newest first",
		Example: `  toold calls --status suspended,running
  toold calls --run r-17 --tool bash
  toold calls show 0198c1c2-5c1e-7a4b-9d3e-1f2a3b4c5d6e`,
		Args: NoArgs,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			request, err := f.request(a.Now())
			if err != nil {
				return err
			}
			if a.Output == FormTable { // the table does not show arguments and results, so do not request them
				request.ReadMask = &fieldmaskpb.FieldMask{Paths: []string{"call_id", "status", "tool", "created_at", "started_at", "ended_at"}}
			}
			return listCalls(ctx, a, c, request, f.limit)
		}),
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.statuses, "status", nil, "new, running, suspended, resuming, succeeded, failed, cancelled; several with commas")
	flags.StringVar(&f.run, "run", "", "only of this run")
	flags.StringVar(&f.thread, "thread", "", "only of this thread")
	flags.StringVar(&f.tool, "tool", "", "only of this tool")
	flags.StringVar(&f.action, "action", "", "only calls that wait for this action, such as approval")
	flags.StringVar(&f.since, "since", "", "only from this time on: 2h, 7d, or 2027-01-31T00:00:00Z")
	flags.BoolVar(&f.oldest, "oldest", false, "oldest first")
	flags.IntVarP(&f.limit, "limit", "n", 50, "how many at most; 0 is all")
	flags.StringVar(&f.page, "page", "", "continue a list: the token that it printed")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	_ = c.RegisterFlagCompletionFunc("tool", a.completeTools)
	c.AddCommand(callShowCommand(a))
	return c
}

func (f *callFilter) request(now time.Time) (*tooldv1.ListCallsRequest, error) {
	r := &tooldv1.ListCallsRequest{RunId: f.run, ThreadId: f.thread, Tool: f.tool, Action: f.action, PageToken: f.page}
	for _, s := range f.statuses {
		n, ok := tooldv1.CallStatus_value["CALL_STATUS_"+strings.ToUpper(strings.TrimSpace(s))]
		if !ok || n == 0 {
			return nil, Usagef("--status %q is not new, running, suspended, resuming, succeeded, failed or cancelled", s)
		}
		r.Statuses = append(r.Statuses, tooldv1.CallStatus(n))
	}
	if f.oldest {
		r.Order = tooldv1.CallOrder_CALL_ORDER_OLDEST_FIRST
	}
	if f.since != "" {
		at, err := time.Parse(time.RFC3339, f.since)
		if err != nil {
			d, err := setting.ParseDuration(f.since)
			if err != nil || d < 0 {
				return nil, Usagef("--since %q is neither a duration such as 2h nor a time such as 2027-01-31T00:00:00Z", f.since)
			}
			at = now.Add(-d)
		}
		r.CreatedAfter = timestamppb.New(at)
	}
	if f.limit < 0 {
		return nil, Usagef("--limit %d is negative", f.limit)
	}
	return r, nil
}

// listCalls reads pages until it has limit calls. It shrinks the last page to the number still missing, so that the printed page token
// continues right after the last call shown.
func listCalls(ctx context.Context, a *App, c *client, request *tooldv1.ListCallsRequest, limit int) error {
	var all []*tooldv1.Call
	for {
		request.PageSize = 100
		if limit > 0 {
			request.PageSize = int32(min(limit-len(all), 100))
		}
		page, err := c.calls.ListCalls(ctx, request)
		if err != nil {
			return err
		}
		all = append(all, page.GetCalls()...)
		for _, id := range page.GetBrokenCallIds() {
			fmt.Fprintf(a.Err, "toold: the record of call %s is broken\n", show.Line(id))
		}
		request.PageToken = page.GetNextPageToken()
		if request.PageToken == "" || limit > 0 && len(all) >= limit {
			break
		}
	}
	if err := printList(a, all, a.OutView().Calls(all)); err != nil {
		return err
	}
	if request.PageToken != "" {
		fmt.Fprintf(a.Err, "there are more: --page %s\n", show.Line(request.PageToken))
	}
	return nil
}

func callShowCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:     "show CALL",
		Short:   "Show the whole record of a call",
		Example: "  toold calls show 0198c1c2-5c1e-7a4b-9d3e-1f2a3b4c5d6e -o json",
		Args:    ExactArgs("a CALL"), ValidArgsFunction: a.completeCalls,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			got, err := c.calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: args[0]})
			if err != nil {
				return err
			}
			return a.Print(got.GetCall(), a.OutView().Call(got.GetCall()))
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
