package cli

import (
	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func describeCommand(a *App) *cobra.Command {
	var f callFlags
	c := &cobra.Command{
		Use:   "describe TOOL [key=value … | --json '{…}' | -]",
		Short: "Show what a call would do, without doing it",
		Long: `Shows whether the arguments are valid, what the call would touch, what each gate
says to it and which isolation it would get. Nothing runs and nothing is stored.

` + ArgumentsHelp,
		Example:           "  toold describe bash command='rm -r build'",
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
			d, err := client.calls.DescribeCall(c.Context(), &tooldv1.DescribeCallRequest{Spec: spec})
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
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
