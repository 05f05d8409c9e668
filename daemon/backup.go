package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/cli"
	"github.com/toold-dev/toold/cli/show"
	"github.com/toold-dev/toold/daemon/wire"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/store/sqlite"
)

func backupCommand(a *cli.App) *cobra.Command {
	data := ""
	c := &cobra.Command{
		Use:   "backup DEST",
		Short: "Copy the whole store into a new directory",
		Long: `Asks the daemon for a consistent copy of its store in the directory DEST on the
daemon's machine. Calls continue meanwhile. DEST must be below a folder of the
setting backup.directories, by default DATA/backups. DEST must not exist, or
must be empty. The command needs the role admin.

With --data, the command itself copies the store in that directory, to any DEST.
No daemon may have that store open.

The copy contains the journal and the output of calls of all namespaces. It does
not contain the configuration, tokens or the workspace. "toold restore" makes a
store from it.`,
		Example: "  toold backup data/backups/monday\n  toold backup /mnt/monday --data data   # no daemon runs",
		Args:    cli.ExactArgs("DEST"),
		RunE: func(c *cobra.Command, args []string) error {
			dest, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if data == "" {
				return withAdmin(a, func(ctx context.Context, c tooldv1.AdminServiceClient) error {
					got, err := c.Backup(ctx, &tooldv1.BackupRequest{Directory: dest})
					if err != nil {
						return err
					}
					return a.Print(got, copiedText(dest, got.GetCalls(), got.GetFiles(), got.GetBytes()))
				})(c, args)
			}
			copied, err := sqlite.Backup(c.Context(), data, dest)
			if err != nil {
				return err
			}
			return printCopied(a, dest, copied)
		},
	}
	c.Flags().StringVar(&data, "data", "", "directory of the store, when no daemon runs")
	a.OutputFlag(c, cli.FormTable, cli.FormJSON)
	return c
}

func restoreCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "restore SRC DATA",
		Short: "Create a store from a backup",
		Long: `Copies the backup in SRC into the directory DATA. DATA must not exist, or must
be empty. When a daemon starts on the new store, it holds the unfinished calls,
because they may have continued since the backup. "toold release" resumes or
cancels them.

The new store has no created tokens and no browser sessions, because some of
them may have been revoked since the backup.`,
		Example: "  toold restore data/backups/monday restored\n  toold serve --data restored --workspace workspace\n  toold release --all",
		Args:    cli.ExactArgs("SRC", "DATA"),
		RunE: func(c *cobra.Command, args []string) error {
			copied, err := sqlite.Restore(c.Context(), args[0], args[1], wire.CredentialKind)
			if err != nil {
				return err
			}
			return printCopied(a, args[1], copied)
		},
	}
	a.OutputFlag(c, cli.FormTable, cli.FormJSON)
	return c
}

func printCopied(a *cli.App, dest string, copied *call.Backup) error {
	if a.Output == cli.FormJSON {
		return json.NewEncoder(a.Out).Encode(copied)
	}
	_, err := fmt.Fprint(a.Out, copiedText(dest, copied.Calls, int64(copied.Files), copied.Bytes))
	return err
}

func copiedText(dest string, calls, files, size int64) string {
	return fmt.Sprintf("%s: %s calls, %s files of output, %s\n", show.Line(dest), show.Number(calls), show.Number(files), show.Size(size))
}
