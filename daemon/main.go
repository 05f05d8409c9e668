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

// Main runs the program toold: its command line, extended by the options. It ends the process. A program that calls Main must call
// [sandbox.Help] in its first line. If there is no file toold-sandbox in the directory of the program, the daemon starts the program itself
// again to isolate processes, and Help handles that.
func Main(opts ...Option) {
	a := cli.New(release())
	addCommands(a, newOptions(helperPath(), opts))
	os.Exit(a.Main(os.Args[1:]))
}

// Command returns the command line of toold with all its commands, for programs that write its documentation.
func Command() *cobra.Command {
	a := cli.New(release())
	addCommands(a, newOptions(helperPath(), nil))
	return a.Root()
}

// addCommands adds the commands that use files and processes of this machine.
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

// withAdmin returns a command that invokes run with a client of the daemon that the flags name.
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

// loadConfig loads the configuration of a command that has the flags of [config.AddFlags]. It prints warnings about environment variables
// that look like settings.
func loadConfig(a *cli.App, c *cobra.Command) (*config.Config, error) {
	for _, name := range []string{"address", "token-file", "ca", "tls", "cert", "key"} {
		if f := c.Flags().Lookup(name); f != nil && f.Changed {
			return nil, cli.Usagef("--%s works only with commands that connect to a daemon\n  see: %s --help", name, c.CommandPath())
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
