package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli"
	"github.com/toold-dev/toold/store/postgres"
	"github.com/toold-dev/toold/store/sqlite"
)

func storeCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{Use: "store", Short: "Move a store to another place", Example: "  toold store copy data postgres://toold@db/toold", Args: cli.NoArgs}
	c.AddCommand(storeCopyCommand(a))
	return c
}

func storeCopyCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Copy a store into a PostgreSQL database, or back",
		Long: `Copies a store. One of FROM and TO is a data directory, the other the URL of a
PostgreSQL database; TO must not have a store yet. No daemon may have either of
them open. The store in FROM stays as it is. The output of calls is in the data
directory either way and is not copied: go on serving with the same --data.

What was written is read back and compared: a copy that fails leaves nothing,
and is asked for again. A daemon that is started on the copy holds the calls
that had not ended: "toold release" carries them on or ends them,
"serve --moved" says that nothing has gone on since.`,
		Example: "  toold store copy data postgres://toold@db/toold\n  toold serve --data data --store postgres://toold@db/toold --moved\n  toold store copy postgres://toold@db/toold data",
		Args:    cli.ExactArgs("FROM", "TO"),
		RunE: func(c *cobra.Command, args []string) error {
			copyStore := intoPostgres
			switch from, to := isURL(args[0]), isURL(args[1]); {
			case from && to, !from && !to:
				return cli.Usagef("one of FROM and TO has to be a data directory, the other a URL such as postgres://role@host/database")
			case from:
				copyStore = outOfPostgres
			}
			done, err := copyStore(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			if a.Output == cli.FormJSON {
				return json.NewEncoder(a.Out).Encode(done)
			}
			for _, t := range done {
				fmt.Fprintf(a.Out, "%-12s %8d rows\n", t.Table, t.Rows)
			}
			return nil
		},
	}
	a.OutputFlag(c, cli.FormTable, cli.FormJSON)
	return c
}

func isURL(text string) bool { return strings.Contains(text, "://") }

func intoPostgres(ctx context.Context, from, to string) (_ []postgres.Imported, err error) {
	if err := postgres.CheckURL(to); err != nil {
		return nil, cli.Usagef("%w", err)
	}
	rows, err := sqlite.OpenRows(from)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	return postgres.Import(ctx, to, rows)
}

func outOfPostgres(ctx context.Context, from, to string) (done []postgres.Imported, err error) {
	if err := postgres.CheckURL(from); err != nil {
		return nil, cli.Usagef("%w", err)
	}
	rows, err := postgres.OpenRows(ctx, from)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	copied, err := sqlite.Import(ctx, to, rows)
	for _, t := range copied {
		done = append(done, postgres.Imported(t))
	}
	return done, err
}
