package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func logLevelCommand(a *App) *cobra.Command {
	levels := []string{"debug", "info", "warn", "error"}
	c := &cobra.Command{
		Use: "log-level debug|info|warn|error", Short: "Change what the running daemon logs", Args: ExactArgs("a LEVEL: debug, info, warn or error"),
		Long: `Sets the lowest level of the lines that the daemon writes to its log. The level
applies until you change it again or the daemon ends. At its start the daemon
uses the setting log.level. Needs the role admin.`,
		Example:           "  toold log-level debug",
		ValidArgsFunction: cobra.FixedCompletions(levels, cobra.ShellCompDirectiveNoFileComp),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			level := slices.Index(levels, strings.ToLower(args[0])) + 1
			if level == 0 {
				return Usagef("%q is not one of %s", args[0], strings.Join(levels, ", "))
			}
			got, err := c.admin.SetLogLevel(ctx, &tooldv1.SetLogLevelRequest{Level: tooldv1.LogLevel(level)})
			if err != nil {
				return err
			}
			text := levels[level-1] + "\n"
			if before := int(got.GetPrevious()); before > 0 && before <= len(levels) {
				text = levels[before-1] + " → " + text
			}
			return a.Print(got, text)
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
