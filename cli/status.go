package cli

import (
	"context"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func statusCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "Show what is wrong now, and what to do about it", Example: "  toold status\n  toold status -o jsonl | jq -r .code", Args: NoArgs,
		Long: `Lists the problems of the daemon and of your namespace, errors first. Examples
are sources that are down, failing hooks, tools in quarantine, held calls,
missing isolation, a disk that is almost full, certificates and tokens that
expire soon, and a broken audit chain. Needs one of the roles operator, viewer
and admin.`,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			got, err := c.admin.ListProblems(ctx, &tooldv1.ListProblemsRequest{})
			if err != nil {
				return err
			}
			return printList(a, got.GetProblems(), a.OutView().Problems(got))
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}

func loadCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "load", Short: "Show the load of the daemon in the last hour", Example: "  toold load\n  toold load -o jsonl | jq .running", Args: NoArgs,
		Long: `Prints the samples of the last hour, one for each 10 s, oldest first. A sample
has the number of calls that run, wait for a slot or wait for a decision, the
number of calls that ended or failed, and the resources that the daemon uses.
Needs the role admin.`,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			got, err := c.admin.GetLoad(ctx, &tooldv1.GetLoadRequest{})
			if err != nil {
				return err
			}
			return printList(a, got.GetSamples(), a.OutView().Load(got.GetSamples()))
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}

func workersCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "workers", Short: "List the connected workers", Example: "  toold workers\n  toold workers -o jsonl | jq -r '.call_ids[]'", Args: NoArgs,
		Long: `Lists the workers that are connected now, with their pool, tools and running
calls. Needs one of the roles operator, viewer and admin. Admins see the workers
of all namespaces.`,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			var all []*tooldv1.Worker
			request := &tooldv1.ListWorkersRequest{}
			for {
				page, err := c.admin.ListWorkers(ctx, request)
				if err != nil {
					return err
				}
				all = append(all, page.GetWorkers()...)
				if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
					return printList(a, all, a.OutView().Workers(all))
				}
			}
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}

func retrySourceCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "retry SOURCE", Short: "Make the daemon connect now to a source that is down", Example: "  toold tools retry mcp:memory", Args: ExactArgs("a SOURCE"),
		Long: `Makes the daemon connect to an MCP server now. Otherwise the daemon waits before
it tries again. "toold tools sources" shows the result. Needs the role operator
or admin.`,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			got, err := c.admin.RetrySource(ctx, &tooldv1.RetrySourceRequest{Name: args[0]})
			if err != nil {
				return err
			}
			return a.Print(got.GetSource(), a.OutView().Sources([]*tooldv1.Source{got.GetSource()}))
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
