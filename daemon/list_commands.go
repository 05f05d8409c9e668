package daemon

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// print writes one message in the form that was asked for.
func (a *app) print(m proto.Message, table string) error {
	text := table
	if a.output != formTable {
		var err error
		if text, err = show.Message(m, a.output == formJSON); err != nil {
			return err
		}
	}
	_, err := io.WriteString(a.out, text)
	return err
}

// printList writes many messages: as JSON one list, as jsonl a line for each.
func printList[M proto.Message](a *app, list []M, table string) error {
	if a.output == formTable {
		_, err := io.WriteString(a.out, table)
		return err
	}
	texts := make([]string, len(list))
	for i, m := range list {
		text, err := show.Message(m, a.output == formJSON)
		if err != nil {
			return err
		}
		texts[i] = text
	}
	text := strings.Join(texts, "")
	if a.output == formJSON {
		for i := range texts {
			texts[i] = strings.TrimSuffix(texts[i], "\n")
		}
		text = "[" + strings.Join(texts, ",\n") + "]\n"
	}
	_, err := io.WriteString(a.out, text)
	return err
}

// withClient runs a command that needs nothing but a connection.
func (a *app) withClient(run func(ctx context.Context, c *client, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		client, err := a.dial()
		if err != nil {
			return err
		}
		defer client.close()
		return run(c.Context(), client, args)
	}
}

func (a *app) toolsCommand() *cobra.Command {
	var source, category string
	c := &cobra.Command{
		Use:   "tools [TOOL]",
		Short: "List the tools, or show one",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s takes one TOOL, or none for the list", c.CommandPath())
			}
			return nil
		},
		Example:           "  toold tools\n  toold tools bash\n  toold tools -o jsonl | jq -r .id",
		ValidArgsFunction: a.completeTools,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			if len(args) == 1 {
				got, err := c.tools.GetTool(ctx, &tooldv1.GetToolRequest{Tool: args[0]})
				if err != nil {
					return err
				}
				return a.print(got.GetTool(), a.outView().Tool(got.GetTool()))
			}
			var all []*tooldv1.Descriptor
			request := &tooldv1.ListToolsRequest{Source: source, Category: category}
			for {
				page, err := c.tools.ListTools(ctx, request)
				if err != nil {
					return err
				}
				all = append(all, page.GetTools()...)
				if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
					break
				}
			}
			return printList(a, all, a.outView().Tools(all))
		}),
	}
	c.Flags().StringVar(&source, "source", "", "only of this source, such as builtin")
	c.Flags().StringVar(&category, "category", "", "only of this category")
	a.outputFlag(c, formTable, formJSON, formJSONL)
	c.AddCommand(a.exportCommand(), a.toolDiffCommand(), a.toolAcceptCommand(), a.toolCheckCommand(), a.sourcesCommand())
	return c
}

// callFilter is what calls filters by.
type callFilter struct {
	statuses                  []string
	run, thread, tool, action string
	since                     string
	limit                     int
	page                      string
	oldest                    bool
}

func (a *app) callsCommand() *cobra.Command {
	var f callFilter
	c := &cobra.Command{
		Use:   "calls",
		Short: "List calls, newest first",
		Example: `  toold calls --status suspended,running
  toold calls --run r-17 --tool bash
  toold calls show 0198c1c2-5c1e-7a4b-9d3e-1f2a3b4c5d6e`,
		Args: noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			request, err := f.request(a.now())
			if err != nil {
				return err
			}
			if a.output == formTable { // no arguments and results, which nobody sees here
				request.ReadMask = &fieldmaskpb.FieldMask{Paths: []string{"call_id", "status", "tool", "created_at", "started_at", "ended_at"}}
			}
			return a.listCalls(ctx, c, request, f.limit)
		}),
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.statuses, "status", nil, "new, running, suspended, resuming, succeeded, failed, cancelled; several with commas")
	flags.StringVar(&f.run, "run", "", "only of this run")
	flags.StringVar(&f.thread, "thread", "", "only of this thread")
	flags.StringVar(&f.tool, "tool", "", "only of this tool")
	flags.StringVar(&f.action, "action", "", "only those that wait for this, such as approval")
	flags.StringVar(&f.since, "since", "", "only from this time on: 2h, 7d, or 2027-01-31T00:00:00Z")
	flags.BoolVar(&f.oldest, "oldest", false, "oldest first")
	flags.IntVarP(&f.limit, "limit", "n", 50, "how many at most; 0 is all")
	flags.StringVar(&f.page, "page", "", "go on where a list ended: the token that it printed")
	a.outputFlag(c, formTable, formJSON, formJSONL)
	_ = c.RegisterFlagCompletionFunc("tool", a.completeTools)
	c.AddCommand(a.callShowCommand())
	return c
}

func (f *callFilter) request(now time.Time) (*tooldv1.ListCallsRequest, error) {
	r := &tooldv1.ListCallsRequest{RunId: f.run, ThreadId: f.thread, Tool: f.tool, Action: f.action, PageToken: f.page}
	for _, s := range f.statuses {
		n, ok := tooldv1.CallStatus_value["CALL_STATUS_"+strings.ToUpper(strings.TrimSpace(s))]
		if !ok || n == 0 {
			return nil, usagef("--status %q is not new, running, suspended, resuming, succeeded, failed or cancelled", s)
		}
		r.Statuses = append(r.Statuses, tooldv1.CallStatus(n))
	}
	if f.oldest {
		r.Order = tooldv1.CallOrder_CALL_ORDER_OLDEST_FIRST
	}
	if f.since != "" {
		at, err := time.Parse(time.RFC3339, f.since)
		if err != nil {
			d, err := parseDuration(f.since)
			if err != nil || d < 0 {
				return nil, usagef("--since %q is neither a duration such as 2h nor a time such as 2027-01-31T00:00:00Z", f.since)
			}
			at = now.Add(-d)
		}
		r.CreatedAfter = timestamppb.New(at)
	}
	if f.limit < 0 {
		return nil, usagef("--limit %d is negative", f.limit)
	}
	return r, nil
}

// listCalls reads pages until there are enough. The token that it prints fits the end of a page, so that the last page is
// asked for in the size that is wanted.
func (a *app) listCalls(ctx context.Context, c *client, request *tooldv1.ListCallsRequest, limit int) error {
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
			fmt.Fprintf(a.err, "toold: the record of call %s is broken\n", show.Line(id))
		}
		request.PageToken = page.GetNextPageToken()
		if request.PageToken == "" || limit > 0 && len(all) >= limit {
			break
		}
	}
	if err := printList(a, all, a.outView().Calls(all)); err != nil {
		return err
	}
	if request.PageToken != "" {
		fmt.Fprintf(a.err, "there are more: --page %s\n", show.Line(request.PageToken))
	}
	return nil
}

func (a *app) callShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "show CALL",
		Short:   "Show the whole record of a call",
		Example: "  toold calls show 0198c1c2-5c1e-7a4b-9d3e-1f2a3b4c5d6e -o json",
		Args:    exactArgs("a CALL"), ValidArgsFunction: a.completeCalls,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			got, err := c.calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: args[0]})
			if err != nil {
				return err
			}
			return a.print(got.GetCall(), a.outView().Call(got.GetCall()))
		}),
	}
	a.outputFlag(c, formTable, formJSON, formJSONL)
	return c
}

func (a *app) runsCommand() *cobra.Command {
	c := &cobra.Command{Use: "runs", Short: "Show or end a run", Example: "  toold runs show r-17", Args: noArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	show := &cobra.Command{
		Use: "show RUN", Short: "Show where a run stands", Example: "  toold runs show r-17", Args: exactArgs("a RUN"), ValidArgsFunction: a.completeRuns,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			got, err := c.calls.GetRun(ctx, &tooldv1.GetRunRequest{RunId: args[0]})
			if err != nil {
				return err
			}
			return a.print(got.GetRun(), a.outView().Run(got.GetRun()))
		}),
	}
	a.outputFlag(show, formTable, formJSON, formJSONL)
	var reason, successor string
	end := &cobra.Command{
		Use: "end RUN", Short: "End a run: cancel what runs or waits in it, lift a block", Example: "  toold runs end r-17 --reason 'user left'", Args: exactArgs("a RUN"), ValidArgsFunction: a.completeRuns,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			got, err := c.calls.EndRun(ctx, &tooldv1.EndRunRequest{RunId: args[0], Reason: reason, SupersededByRunId: successor})
			if err != nil {
				return err
			}
			text := a.outView().Run(got.GetRun())
			for _, id := range got.GetCancelledCallIds() {
				text += "cancels " + id + "\n"
			}
			return a.print(got, text)
		}),
	}
	end.Flags().StringVar(&reason, "reason", "", "for the record")
	end.Flags().StringVar(&successor, "superseded-by", "", "run of the new turn that takes its place")
	a.outputFlag(end, formTable, formJSON, formJSONL)
	c.AddCommand(show, end)
	return c
}
