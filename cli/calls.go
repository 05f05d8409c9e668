package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
	statuses, tools, labels []string
	errors, executed        []string
	run, thread, action     string
	caller, source, text    string
	since, until            string
	limit                   int
	page                    string
	oldest                  bool
}

func callsCommand(a *App) *cobra.Command {
	var f callFilter
	c := &cobra.Command{
		Use:   "calls",
		Short: "List calls, newest first",
		Example: `  toold calls --status suspended,running
  toold calls --run r-17 --tool bash,grep
  toold calls --label env=prod --error timeout,upstream --since 2h
  toold calls --executed unknown
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
	flags.StringSliceVar(&f.statuses, "status", nil, "only calls with these statuses: new, running, suspended, resuming, succeeded, failed, cancelled; separate several by commas")
	flags.StringVar(&f.run, "run", "", "only calls of this run")
	flags.StringVar(&f.thread, "thread", "", "only calls of this thread")
	flags.StringSliceVar(&f.tools, "tool", nil, "only calls of these tools; separate several by commas")
	flags.StringVar(&f.source, "source", "", "only calls of tools that this source provides now")
	flags.StringVar(&f.caller, "caller", "", "only calls of this caller, by its subject")
	flags.StringArrayVar(&f.labels, "label", nil, "only calls of runs with this label: KEY=VALUE; may be repeated")
	flags.StringSliceVar(&f.errors, "error", nil, "only calls with these error codes, such as timeout or in_doubt; separate several by commas")
	flags.StringSliceVar(&f.executed, "executed", nil, "only calls whose tool got this far: not_started, started, finished, unknown; separate several by commas")
	flags.StringVar(&f.text, "text", "", "only calls with this text in the tool id or title, in upper or lower case")
	flags.StringVar(&f.action, "action", "", "only calls that wait for this action, such as approval")
	flags.StringVar(&f.since, "since", "", "only since this time: 2h (2 hours ago), 7d, or 2027-01-31T00:00:00Z")
	flags.StringVar(&f.until, "until", "", "only before this time, in the same form as --since")
	flags.BoolVar(&f.oldest, "oldest", false, "oldest first")
	flags.IntVarP(&f.limit, "limit", "n", 50, "largest number to list; 0 means all")
	flags.StringVar(&f.page, "page", "", "continue a list, with the token that its last page printed")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	_ = c.RegisterFlagCompletionFunc("tool", a.completeTools)
	c.AddCommand(callShowCommand(a))
	return c
}

func (f *callFilter) request(now time.Time) (r *tooldv1.ListCallsRequest, err error) {
	r = &tooldv1.ListCallsRequest{
		RunId: f.run, ThreadId: f.thread, Tools: f.tools, Action: f.action, PageToken: f.page, Caller: f.caller, Source: f.source, Text: f.text,
	}
	if r.Statuses, err = enums[tooldv1.CallStatus]("--status", "CALL_STATUS_", tooldv1.CallStatus_name, f.statuses); err != nil {
		return nil, err
	}
	if r.ErrorCodes, err = enums[tooldv1.ErrorCode]("--error", "ERROR_CODE_", tooldv1.ErrorCode_name, f.errors); err != nil {
		return nil, err
	}
	if r.Executed, err = enums[tooldv1.Executed]("--executed", "EXECUTED_", tooldv1.Executed_name, f.executed); err != nil {
		return nil, err
	}
	if r.Labels, err = labels(f.labels); err != nil {
		return nil, err
	}
	if f.oldest {
		r.Order = tooldv1.CallOrder_CALL_ORDER_OLDEST_FIRST
	}
	if r.CreatedAfter, err = moment("--since", f.since, now); err != nil {
		return nil, err
	}
	if r.CreatedBefore, err = moment("--until", f.until, now); err != nil {
		return nil, err
	}
	if f.limit < 0 {
		return nil, Usagef("--limit %d is negative", f.limit)
	}
	return r, nil
}

func labels(flags []string) (all map[string]string, err error) {
	for _, label := range flags {
		key, value, ok := strings.Cut(label, "=")
		if !ok || key == "" {
			return nil, Usagef("--label %q is not KEY=VALUE", label)
		}
		if all == nil {
			all = map[string]string{}
		}
		all[key] = value
	}
	return all, nil
}

// enums returns the values of an enum with these names. A name may be in upper or lower case, and does not have the prefix of the names in
// the API.
func enums[E ~int32](flag, prefix string, all map[int32]string, names []string) (values []E, err error) {
	for _, name := range names {
		found := false
		for n, one := range all {
			if n != 0 && one == prefix+strings.ToUpper(strings.TrimSpace(name)) {
				values, found = append(values, E(n)), true
			}
		}
		if !found {
			var choice []string
			for _, n := range slices.Sorted(maps.Keys(all))[1:] {
				choice = append(choice, strings.ToLower(strings.TrimPrefix(all[n], prefix)))
			}
			return nil, Usagef("%s %q is not %s or %s", flag, name, strings.Join(choice[:len(choice)-1], ", "), choice[len(choice)-1])
		}
	}
	return values, nil
}

// moment returns the time that a flag gives, as a time or as a duration before now. It returns nil for an empty flag.
func moment(flag, text string, now time.Time) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		d, err := setting.ParseDuration(text)
		if err != nil || d < 0 {
			return nil, Usagef("%s %q is neither a duration such as 2h nor a time such as 2027-01-31T00:00:00Z", flag, text)
		}
		at = now.Add(-d)
	}
	return timestamppb.New(at), nil
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
			fmt.Fprintf(a.Err, "toold: the record of call %s is damaged\n", show.Line(id))
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
		fmt.Fprintf(a.Err, "there are more; the next page: --page %s\n", show.Line(request.PageToken))
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
