package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli"
	"github.com/toold-dev/toold/cli/show"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/postgres"
	"github.com/toold-dev/toold/store/sqlite"
)

func storeCheckCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "check STORE",
		Short: "Check whether this version can open a store",
		Long: `Checks whether this version of toold can open a store. STORE is a data directory
or the URL of a PostgreSQL database. The store does not change. Run the new
version's check before an upgrade, and the old version's before a downgrade.

The state in the answer is one of:

  READY      this version opens the store (exit code 0)
  MIGRATES   this version opens the store and migrates it; older versions then
             cannot open it any more (0)
  IN_USE     a daemon has the store open, so only the version was checked (9)
  NEWER      a newer version of toold has written the store (8)
  DAMAGED    the structure is damaged; "toold salvage" copies the rest (1)
  FOREIGN    it is not a store of toold (1)
  MISSING    there is no store (6)`,
		Example: "  toold store check data\n  toold store check postgres://toold@db/toold -o json",
		Args:    cli.ExactArgs("STORE"),
		RunE: func(c *cobra.Command, args []string) error {
			versions, err := inspect(c.Context(), args[0])
			found, ok := checked(args[0], versions, err)
			if !ok {
				return err
			}
			return found.print(a)
		},
	}
	a.OutputFlag(c, cli.FormTable, cli.FormJSON)
	return c
}

func inspect(ctx context.Context, at string) (store.SchemaVersions, error) {
	if !isURL(at) {
		return sqlite.Inspect(ctx, at)
	}
	if err := postgres.CheckURL(at); err != nil {
		return store.SchemaVersions{}, cli.Usagef("%w", err)
	}
	return postgres.Inspect(ctx, at)
}

// A storeCheck is the answer of "toold store check".
type storeCheck struct {
	State   string `json:"state"`
	Schema  int    `json:"schema"` // schema version of the store; 0 when it is new or cannot be read
	Latest  int    `json:"latest"` // newest schema version that this version of toold knows
	Opens   bool   `json:"opens"`  // this version can open the store, once no other daemon has it open
	Problem string `json:"problem,omitempty"`

	code int
}

// checked translates the result of an inspection. It returns false when the inspection itself failed.
func checked(at string, v store.SchemaVersions, err error) (storeCheck, bool) {
	got := storeCheck{Schema: v.Found, Latest: v.Latest}
	if err != nil {
		got.Problem = err.Error()
	}
	switch {
	case err == nil && v.Found == v.Latest:
		got.State, got.Opens = "READY", true
	case err == nil:
		got.State, got.Opens = "MIGRATES", true
	case errors.Is(err, sqlite.ErrNewer), errors.Is(err, postgres.ErrNewer):
		got.State, got.code = "NEWER", cli.ExitConflict
	case errors.Is(err, sqlite.ErrLocked), errors.Is(err, postgres.ErrInUse):
		got.State, got.code, got.Opens = "IN_USE", cli.ExitBusy, true
	case errors.Is(err, store.ErrCorrupt):
		got.State, got.code = "DAMAGED", cli.ExitFailed
	case errors.Is(err, sqlite.ErrForeign), errors.Is(err, postgres.ErrForeign):
		got.State, got.code = "FOREIGN", cli.ExitFailed
	case errors.Is(err, fs.ErrNotExist):
		got.State, got.code, got.Problem = "MISSING", cli.ExitNotFound, fmt.Sprintf("%s has no store: there is no file journal.db", at)
	case errors.Is(err, postgres.ErrNoStore):
		got.State, got.code = "MISSING", cli.ExitNotFound
	default:
		return got, false
	}
	return got, true
}

func (s storeCheck) print(a *cli.App) error {
	if a.Output == cli.FormJSON {
		if err := json.NewEncoder(a.Out).Encode(s); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintf(a.Out, "%s: %s\n", s.State, show.Text(s.text())); err != nil {
		return err
	}
	if s.code != cli.ExitOK {
		return cli.Exit(s.code)
	}
	return nil
}

// text explains the state in one sentence.
func (s storeCheck) text() string {
	switch s.State {
	case "READY":
		return fmt.Sprintf("schema %d, which this version uses", s.Schema)
	case "MIGRATES":
		return fmt.Sprintf("this version migrates the store from schema %d to %d", s.Schema, s.Latest)
	case "IN_USE":
		return fmt.Sprintf("%s; schema %d, this version knows schemas up to %d", s.Problem, s.Schema, s.Latest)
	case "DAMAGED":
		return s.Problem + "; \"toold salvage\" copies what is readable into a new store"
	case "NEWER":
		return s.Problem + "; use the version that wrote it, or a newer one"
	default:
		return s.Problem
	}
}
