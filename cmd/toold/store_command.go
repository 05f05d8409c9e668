package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/store/postgres"
	"github.com/toold-dev/toold/store/sqlite"
)

func (a *app) storeCommand() *cobra.Command {
	c := &cobra.Command{Use: "store", Short: "Move a store to another place", Example: "  toold store copy data postgres://toold@db/toold", Args: noArgs}
	c.AddCommand(a.storeCopyCommand())
	return c
}

func (a *app) storeCopyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "copy DATA URL",
		Short: "Copy a store from a data directory into a PostgreSQL database",
		Long: `Copies the store in the directory DATA into the database that URL names, which
must not have a store yet. No daemon may have either of them open. The store in
DATA stays as it is, and so does the output of calls: go on serving with the
same --data.

It is one transaction, and what was written is read back and compared before it
ends: a copy that fails leaves nothing, and is asked for again. A daemon that is
started on the copy holds the calls that had not ended: "toold release" carries
them on or ends them, "serve --moved" says that nothing has gone on since.`,
		Example: "  toold store copy data postgres://toold@db/toold\n  toold serve --data data --store postgres://toold@db/toold --moved",
		Args:    exactArgs("DATA", "URL"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := postgres.CheckURL(args[1]); err != nil {
				return usageError{err}
			}
			from, err := sqlite.OpenRows(args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, from.Close()) }()
			done, err := postgres.Import(c.Context(), args[1], from)
			if err != nil {
				return err
			}
			if a.output == formJSON {
				return json.NewEncoder(a.out).Encode(done)
			}
			for _, t := range done {
				fmt.Fprintf(a.out, "%-12s %8d rows\n", t.Table, t.Rows)
			}
			return nil
		},
	}
	a.outputFlag(c, formTable, formJSON)
	return c
}
