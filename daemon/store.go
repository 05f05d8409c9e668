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
	"github.com/toold-dev/toold/store/rows"
	"github.com/toold-dev/toold/store/sqlite"
)

func storeCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{Use: "store", Short: "Check a store, or move it to another place", Example: "  toold store check data\n  toold store copy data postgres://toold@db/toold", Args: cli.NoArgs}
	c.AddCommand(storeCheckCommand(a), storeCopyCommand(a))
	return c
}

func storeCopyCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Copy a store into a PostgreSQL database, or back",
		Long: `Copies a store. One of FROM and TO is a data directory, the other the URL of a
PostgreSQL database. TO must not contain a store yet. No daemon may have FROM or
TO open. The store in FROM does not change. The output of calls stays in the
data directory and is not copied: start the daemon with the same --data.

The command reads the copy and compares it with the original. When the copy
fails, TO contains nothing, and you can run the command again.

When a daemon starts on the copy, it holds the unfinished calls. "toold release"
resumes or cancels them. If no other daemon has continued them, start the daemon
with "serve --moved" instead.`,
		Example: "  toold store copy data postgres://toold@db/toold\n  toold serve --data data --store postgres://toold@db/toold --moved\n  toold store copy postgres://toold@db/toold data",
		Args:    cli.ExactArgs("FROM", "TO"),
		RunE: func(c *cobra.Command, args []string) error {
			copyStore := intoPostgres
			switch from, to := isURL(args[0]), isURL(args[1]); {
			case from && to, !from && !to:
				return cli.Usagef("one of FROM and TO must be a data directory, the other a URL such as postgres://role@host/database")
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

func intoPostgres(ctx context.Context, from, to string) (_ []rows.Imported, err error) {
	if err := postgres.CheckURL(to); err != nil {
		return nil, cli.Usagef("%w", err)
	}
	tables, err := sqlite.OpenRows(from)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tables.Close()) }()
	return postgres.Import(ctx, to, tables)
}

func outOfPostgres(ctx context.Context, from, to string) (_ []rows.Imported, err error) {
	if err := postgres.CheckURL(from); err != nil {
		return nil, cli.Usagef("%w", err)
	}
	tables, err := postgres.OpenRows(ctx, from)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tables.Close()) }()
	return sqlite.Import(ctx, to, tables)
}
