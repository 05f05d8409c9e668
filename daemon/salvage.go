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
		Short: "Save what a damaged store still holds into a new one",
		Long: `Reads the store in the directory SRC row by row and writes what can be read into
a new one in DST. SRC stays as it is; no daemon may have it open.

What is damaged is told and never made up: a call whose record or log is damaged
is refused with DATA_LOSS, a call of which only the id is left is expired, so
that it is not run again. The unfinished calls of the new store are held, as
those of a store that was moved: start the daemon with --moved when nothing has
gone on since.`,
		Example: "  toold salvage data saved\n  toold serve --data saved --workspace workspace --moved",
		Args:    cli.ExactArgs("SRC", "DST"),
		RunE: func(c *cobra.Command, args []string) error {
			saved, err := sqlite.Salvage(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			if a.Output == cli.FormJSON {
				return json.NewEncoder(a.Out).Encode(saved)
			}
			tellSalvaged(a, saved)
			return nil
		},
	}
	a.OutputFlag(c, cli.FormTable, cli.FormJSON)
	return c
}

func tellSalvaged(a *cli.App, saved *sqlite.Salvaged) {
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
	}{{"refused, for a part of them is damaged", saved.Refused}, {"expired, for only their ids are left", saved.Lost}} {
		if len(list.calls) == 0 {
			continue
		}
		fmt.Fprintf(a.Out, "%d calls are %s:\n", len(list.calls), list.what)
		for _, key := range list.calls {
			fmt.Fprintf(a.Out, "  %s %s\n", show.Text(key.Namespace), show.Text(key.ID))
		}
	}
}
