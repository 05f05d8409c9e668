package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func runsCommand(a *App) *cobra.Command {
	var f runFilter
	c := &cobra.Command{
		Use: "runs", Short: "List runs, the one with the newest call first", Example: "  toold runs --state waiting\n  toold runs --thread chat-4 --agent deployer\n  toold runs show r-17", Args: NoArgs,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			labels, err := labels(f.labels)
			if err != nil {
				return err
			}
			states, err := enums[tooldv1.RunState]("--state", "RUN_STATE_", tooldv1.RunState_name, f.states)
			if err != nil {
				return err
			}
			request := &tooldv1.ListRunsRequest{States: states, ThreadId: f.thread, ParentRunId: f.parent, AgentId: f.agent, Caller: f.caller, Labels: labels}
			runs, next, err := pages(&f, func(size int32, token string) ([]*tooldv1.RunSummary, string, error) {
				request.PageSize, request.PageToken = size, token
				page, err := c.calls.ListRuns(ctx, request)
				return page.GetRuns(), page.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return printPage(a, runs, a.OutView().Runs(runs), next)
		}),
	}
	f.flags(c, "runs")
	c.Flags().StringSliceVar(&f.states, "state", nil, "only runs in these states: open, waiting, blocked, ended; separate several by commas")
	c.Flags().StringVar(&f.thread, "thread", "", "only runs of this thread")
	c.Flags().StringVar(&f.parent, "parent", "", "only the runs that calls of this run started")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	show := &cobra.Command{
		Use: "show RUN", Short: "Show a run: its state, its subagents, and what it waits for", Example: "  toold runs show r-17", Args: ExactArgs("a RUN"), ValidArgsFunction: a.completeRuns,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			got, err := c.calls.GetRun(ctx, &tooldv1.GetRunRequest{RunId: args[0]})
			if err != nil {
				return err
			}
			return a.Print(got.GetRun(), a.OutView().Run(got.GetRun()))
		}),
	}
	a.OutputFlag(show, FormTable, FormJSON, FormJSONL)
	var reason, successor string
	end := &cobra.Command{
		Use: "end RUN", Short: "End a run: cancel its open calls and remove a block", Example: "  toold runs end r-17 --reason 'user left'", Args: ExactArgs("a RUN"), ValidArgsFunction: a.completeRuns,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			got, err := c.calls.EndRun(ctx, &tooldv1.EndRunRequest{RunId: args[0], Reason: reason, SupersededByRunId: successor})
			if err != nil {
				return err
			}
			text := a.OutView().Run(got.GetRun())
			for _, id := range got.GetCancelledCallIds() {
				text += "cancels " + id + "\n"
			}
			return a.Print(got, text)
		}),
	}
	end.Flags().StringVar(&reason, "reason", "", "reason, stored in the records of the cancelled calls")
	end.Flags().StringVar(&successor, "superseded-by", "", "id of the run that replaces this run")
	a.OutputFlag(end, FormTable, FormJSON, FormJSONL)
	c.AddCommand(show, end)
	return c
}

func threadsCommand(a *App) *cobra.Command {
	var f runFilter
	var waiting bool
	c := &cobra.Command{
		Use: "threads", Short: "List threads, the one with the newest call first", Example: "  toold threads --waiting\n  toold threads show chat-4", Args: NoArgs,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			labels, err := labels(f.labels)
			if err != nil {
				return err
			}
			request := &tooldv1.ListThreadsRequest{Waiting: waiting, AgentId: f.agent, Caller: f.caller, Labels: labels}
			threads, next, err := pages(&f, func(size int32, token string) ([]*tooldv1.ThreadSummary, string, error) {
				request.PageSize, request.PageToken = size, token
				page, err := c.calls.ListThreads(ctx, request)
				return page.GetThreads(), page.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return printPage(a, threads, a.OutView().Threads(threads), next)
		}),
	}
	f.flags(c, "threads")
	c.Flags().BoolVar(&waiting, "waiting", false, "only threads with a call that waits for an answer")
	show := &cobra.Command{
		Use: "show THREAD", Short: "Show a thread, and what it waits for", Example: "  toold threads show chat-4", Args: ExactArgs("a THREAD"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			got, err := c.calls.GetThread(ctx, &tooldv1.GetThreadRequest{ThreadId: args[0]})
			if err != nil {
				return err
			}
			return a.Print(got.GetThread(), a.OutView().Thread(got.GetThread()))
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	a.OutputFlag(show, FormTable, FormJSON, FormJSONL)
	c.AddCommand(show)
	return c
}

// runFilter holds the filters of the commands runs and threads.
type runFilter struct {
	states, labels                []string
	thread, parent, agent, caller string
	limit                         int
	page                          string
}

func (f *runFilter) flags(c *cobra.Command, what string) {
	flags := c.Flags()
	flags.StringVar(&f.agent, "agent", "", "only "+what+" of this agent")
	flags.StringVar(&f.caller, "caller", "", "only "+what+" of this caller, by its subject")
	flags.StringArrayVar(&f.labels, "label", nil, "only "+what+" with this label: KEY=VALUE; may be repeated")
	flags.IntVarP(&f.limit, "limit", "n", 50, "largest number to list; 0 means all")
	flags.StringVar(&f.page, "page", "", "continue a list, with the token that its last page printed")
}

// pages reads pages until it has as many entries as the flags say. It returns the token of the next page.
func pages[T any](f *runFilter, read func(size int32, token string) ([]T, string, error)) (all []T, next string, err error) {
	if f.limit < 0 {
		return nil, "", Usagef("--limit %d is negative", f.limit)
	}
	for next = f.page; ; {
		size := 100
		if f.limit > 0 {
			size = min(f.limit-len(all), size)
		}
		var page []T
		if page, next, err = read(int32(size), next); err != nil {
			return nil, "", err
		}
		if all = append(all, page...); next == "" || f.limit > 0 && len(all) >= f.limit {
			return all, next, nil
		}
	}
}

// printPage prints a list, and how to continue it.
func printPage[T proto.Message](a *App, all []T, table, next string) error {
	if err := printList(a, all, table); err != nil {
		return err
	}
	if next != "" {
		fmt.Fprintf(a.Err, "there are more; the next page: --page %s\n", show.Line(next))
	}
	return nil
}
