package cli

import (
	"context"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func describeCommand(a *App) *cobra.Command {
	var f callFlags
	var waiting string
	c := &cobra.Command{
		Use:   "describe TOOL [key=value … | --json '{…}' | -]",
		Short: "Show what a call would do, without running it",
		Long: `Shows for a call that is not made:

- whether the arguments are valid
- what the call would change
- the verdict of each gate
- the isolation of the tool

Nothing runs, and no call is stored.

With --suspension you give no TOOL. The command then shows how the daemon would
judge edited arguments of a suspended call, as with "toold approve --arguments".

` + ArgumentsHelp,
		Example: `  toold describe bash command='rm -r build'
  toold describe --suspension 0198c1 command='rm -r build/old'`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case waiting == "":
				return AtLeast("a TOOL")(c, args)
			case len(args) == 0 && f.json == "":
				return Usagef("--suspension needs the edited arguments: key=value, --json or -")
			case f.run != "" || f.thread != "" || f.agent != "" || f.onBehalfOf != "" || f.unattended:
				return Usagef("a suspended call already has its run and caller; remove --run, --thread, --agent, --on-behalf-of and --unattended")
			}
			return nil
		},
		ValidArgsFunction: a.completeTools,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.dial()
			if err != nil {
				return err
			}
			defer client.close()
			req, err := f.describing(c.Context(), a, client, waiting, args)
			if err != nil {
				return err
			}
			d, err := client.calls.DescribeCall(c.Context(), req)
			if err != nil {
				return err
			}
			if err := a.Print(d, a.OutView().Described(d)); err != nil {
				return err
			}
			if !d.GetValid() {
				return ending(ExitFailed)
			}
			return nil
		},
	}
	f.add(c)
	c.Flags().StringVar(&waiting, "suspension", "", "judge edited arguments of this suspended call; id of the suspension or of the call")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}

// describing returns the request for a new call, or for edited arguments of the call that waiting names.
func (f *callFlags) describing(ctx context.Context, a *App, c *client, waiting string, args []string) (*tooldv1.DescribeCallRequest, error) {
	if waiting == "" {
		spec, err := f.spec(ctx, a, c, args)
		return &tooldv1.DescribeCallRequest{Spec: spec}, err
	}
	call, err := a.findWaiting(ctx, c, waiting)
	if err != nil {
		return nil, err
	}
	spec, err := f.spec(ctx, a, c, append([]string{call.GetTool()}, args...))
	return &tooldv1.DescribeCallRequest{SuspensionId: call.GetSuspension().GetSuspensionId(), Arguments: spec.GetArguments()}, err
}
