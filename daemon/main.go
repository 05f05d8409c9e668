package daemon

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli"
	"github.com/toold-dev/toold/cli/show"
	"github.com/toold-dev/toold/daemon/config"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Main is the program toold with its command line, and ends the process. A program that is to start its own isolated processes calls
// [sandbox.Help] first.
func Main(version string) {
	a := cli.New(version)
	addCommands(a)
	os.Exit(a.Main(os.Args[1:]))
}

// addCommands adds to the command line what works on this machine's files and processes.
func addCommands(a *cli.App) {
	for _, c := range []*cobra.Command{
		serveCommand(a), configCommand(a), salvageCommand(a), storeCommand(a), backupCommand(a), restoreCommand(a), auditCommand(a), conformanceCommand(a), sandboxCommand(a),
	} {
		a.Add("", c)
	}
	a.Add("rules", rulesTestCommand(a))
	a.Add("tools", toolCheckCommand(a))
}

// withAdmin calls run with the daemon that the flags name.
func withAdmin(a *cli.App, run func(context.Context, tooldv1.AdminServiceClient) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		conn, err := a.Dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		return run(c.Context(), tooldv1.NewAdminServiceClient(conn))
	}
}

func serveCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: `Runs the daemon until SIGINT or SIGTERM; a second signal ends it at once. SIGHUP
reads configuration and rules again.

Settings come from the file, from the environment and from the flags; each
counts more than the one before. docs/reference/configuration.md describes them; "toold
config show" shows what holds.`,
		Example: "  toold serve --data data --workspace workspace\n  toold serve --config /etc/toold/toold.yaml",
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadConfig(a, c)
			if err != nil {
				return err
			}
			return serve(c.Context(), cfg, a.Version, a.Program(), a.Out)
		},
	}
	config.AddFlags(c.Flags())
	c.Flags().Bool("moved", false, "the store's files were only moved: its unfinished calls are its own")
	return c
}

// loadConfig loads the configuration of a command that has configFlags, and tells what looks wrong in the environment.
func loadConfig(a *cli.App, c *cobra.Command) (*config.Config, error) {
	for _, name := range []string{"address", "token-file", "ca", "tls", "cert", "key"} {
		if f := c.Flags().Lookup(name); f != nil && f.Changed {
			return nil, cli.Usagef("--%s is for the commands that talk to a daemon\n  see: %s --help", name, c.CommandPath())
		}
	}
	cfg, err := config.Load(c.Flags(), a.Environ)
	if err != nil {
		return nil, err
	}
	for _, w := range cfg.Warnings() {
		fmt.Fprintln(a.Err, "toold: "+show.Text(w))
	}
	return cfg, nil
}
