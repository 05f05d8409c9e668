package daemon

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/cli"
	"github.com/toold-dev/toold/cli/show"
	"github.com/toold-dev/toold/store/sqlite"
)

func salvageCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "salvage SRC DST",
		Short: "Copy the readable rows of a damaged store into a new one",
		Long: `Reads the store in the directory SRC row by row and writes all readable rows
into a new store in DST. SRC does not change. No daemon may have SRC open.

The command reports damaged rows and never guesses their content:

- Requests for a call with a damaged record or log fail with DATA_LOSS.
- When only the id of a call is readable, the call counts as expired. It never
  runs again.

When a daemon starts on the new store, it holds the unfinished calls. "toold
release" resumes or cancels them. The daemon also revokes all created tokens and
sessions, because the damage may have undone a revocation. Do not use --moved:
it would keep these tokens.`,
		Example: "  toold salvage data saved\n  toold serve --data saved --workspace workspace\n  toold release --all",
		Args:    cli.ExactArgs("SRC", "DST"),
		RunE: func(c *cobra.Command, args []string) error {
			saved, err := sqlite.Salvage(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			if a.Output == cli.FormJSON {
				return json.NewEncoder(a.Out).Encode(saved)
			}
			printSalvaged(a, saved)
			return nil
		},
	}
	a.OutputFlag(c, cli.FormTable, cli.FormJSON)
	return c
}

func printSalvaged(a *cli.App, saved *sqlite.Salvaged) {
	for _, t := range saved.Tables {
		note := ""
		if t.Damaged {
			note = "  damaged: rows may be missing"
		}
		fmt.Fprintf(a.Out, "%-12s %8d rows%s\n", t.Name, t.Rows, note)
	}
	fmt.Fprintf(a.Out, "%-12s %8d files\n", "output", saved.Files)
	for _, list := range []struct {
		what  string
		calls []call.Key
	}{{"refused, because a part of them is damaged", saved.Refused}, {"expired, because only their ids are left", saved.Lost}} {
		if len(list.calls) == 0 {
			continue
		}
		fmt.Fprintf(a.Out, "%d calls are %s:\n", len(list.calls), list.what)
		for _, key := range list.calls {
			fmt.Fprintf(a.Out, "  %s %s\n", show.Text(key.Namespace), show.Text(key.ID))
		}
	}
}
