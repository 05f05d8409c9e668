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

// Main is the program toold with its command line and with what the options add, and ends the process. [sandbox.Help] is the first
// line of such a program: without the file toold-sandbox beside it, the program itself is started again to isolate processes.
func Main(opts ...Option) {
	a := cli.New(release())
	addCommands(a, newOptions(helperPath(), opts))
	os.Exit(a.Main(os.Args[1:]))
}

// addCommands adds to the command line what works on this machine's files and processes.
func addCommands(a *cli.App, o options) {
	for _, c := range []*cobra.Command{backupCommand(a), restoreCommand(a), salvageCommand(a), storeCommand(a)} {
		a.Add(cli.GroupStore, c)
	}
	for _, c := range []*cobra.Command{configCommand(a, o), conformanceCommand(a), sandboxCommand(a, o), serveCommand(a, o)} {
		a.Add(cli.GroupDiagnostics, c)
	}
	a.AddTo("audit", auditVerifyCommand(a))
	a.AddTo("audit", auditKeyCommand(a))
	a.AddTo("rules", rulesTestCommand(a, o))
	a.AddTo("tools", toolCheckCommand(a))
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

// loadConfig loads the configuration of a command that has configFlags, and warns of what looks wrong in the environment.
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
