package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli/show"
)

// run executes one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	return a.report(ctx, root.ExecuteContext(ctx))
}

// The groups of "toold help".
const (
	groupCalls  = "calls"
	groupPeople = "people"
	groupDaemon = "daemon"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "toold",
		Short: "Run tools for language models, with people in the middle",
		Long: `toold runs tools for orchestrators of language models: it checks the arguments,
asks who has to be asked, runs the tool, streams what happens and keeps one
result.

Data goes to standard output, progress to standard error. "toold help
exit-codes" lists the exit codes.`,
		Example: `  toold serve
  toold call grep pattern=TODO path=src
  toold inbox
  toold approve SUSPENSION`,
		SilenceErrors: true, SilenceUsage: true,
		SuggestionsMinimumDistance: 2,
		PersistentPreRun:           func(*cobra.Command, []string) { a.started = true },
		Args:                       noArgs,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w\n  see: %s --help", err, c.CommandPath())
	})
	root.SetUsageFunc(usage)
	a.connection.flags(root.PersistentFlags())
	root.AddGroup(&cobra.Group{ID: groupCalls, Title: "Calls:"}, &cobra.Group{ID: groupPeople, Title: "Decisions:"},
		&cobra.Group{ID: groupDaemon, Title: "Daemon:"})
	group := func(id string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	group(groupCalls, a.callCommand(), a.batchCommand(), a.describeCommand(), a.toolsCommand(), a.callsCommand(), a.watchCommand(),
		a.cancelCommand(), a.inputCommand(), a.artifactCommand(), a.runsCommand(), a.documentsCommand())
	group(groupPeople, a.inboxCommand(), a.approveCommand(), a.declineCommand(), a.answerCommand(), a.modeCommand())
	group(groupDaemon, a.serveCommand(), a.configCommand(), a.rulesCommand(), a.tokenCommand(), a.infoCommand(), a.hooksCommand(), a.secretsCommand(), a.healthCommand(), a.reloadCommand(), a.drainCommand(), a.logLevelCommand())
	group(groupDaemon, a.salvageCommand(), a.storeCommand(), a.backupCommand(), a.restoreCommand(), a.releaseCommand(), a.purgeCommand(), a.auditCommand(), a.conformanceCommand(), a.sandboxCommand())
	root.AddCommand(a.versionCommand(), &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesHelp})
	a.runFlags(root)
	return root
}

// noArgs, exactArgs and atMost are cobra's checks with words for people.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if !c.HasSubCommands() {
		return usagef("%s takes no arguments, got %q\n  see: %s --help", c.CommandPath(), args[0], c.CommandPath())
	}
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		text += fmt.Sprintf("; did you mean %q?", near[0])
	}
	return usagef("%s\n  see: %s --help", text, c.CommandPath())
}

func exactArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return usagef("%s takes %s\n  see: %s --help", c.CommandPath(), strings.Join(names, " and "), c.CommandPath())
	}
}

func atLeast(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return nil
		}
		return usagef("%s needs %s\n  see: %s --help", c.CommandPath(), name, c.CommandPath())
	}
}

func (a *app) serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: `Runs the daemon until SIGINT or SIGTERM; a second signal ends it at once. SIGHUP
reads configuration and rules again.

Settings come from the file, from the environment and from the flags; each
counts more than the one before. docs/configuration.md describes them; "toold
config show" shows what holds.`,
		Example: "  toold serve --data data --workspace workspace\n  toold serve --config /etc/toold/toold.yaml",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.config(c)
			if err != nil {
				return err
			}
			return serve(c.Context(), cfg, a.program(), a.out)
		},
	}
	configFlags(c.Flags())
	c.Flags().Bool("moved", false, "the store's files were only moved: its unfinished calls are its own")
	return c
}

// config loads the configuration of a command that has configFlags, and tells what looks wrong in the environment.
func (a *app) config(c *cobra.Command) (*Config, error) {
	for _, name := range []string{"address", "token-file", "ca", "tls", "cert", "key"} {
		if f := c.Flags().Lookup(name); f != nil && f.Changed {
			return nil, usagef("--%s is for the commands that talk to a daemon\n  see: %s --help", name, c.CommandPath())
		}
	}
	cfg, err := loadConfig(c.Flags(), a.environ)
	if err != nil {
		return nil, err
	}
	for _, w := range cfg.loaded.warnings {
		fmt.Fprintln(a.err, "toold: "+show.Text(w))
	}
	return cfg, nil
}

func (a *app) versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "version", Short: "Print the version of this program", Example: "  toold version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.output != formTable {
				return json.NewEncoder(a.out).Encode(map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
			}
			fmt.Fprintf(a.out, "toold %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
	a.outputFlag(c, formTable, formJSON, formJSONL)
	return c
}

// outputFlag adds --output with the forms that the command has; the first is the default.
func (a *app) outputFlag(c *cobra.Command, forms ...string) {
	c.Flags().StringVarP(&a.output, "output", "o", forms[0], "form of the data: "+strings.Join(forms, ", "))
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if !slices.Contains(forms, a.output) {
			return usagef("--output %q is not one of %s", a.output, strings.Join(forms, ", "))
		}
		if before != nil {
			return before(c, args)
		}
		return nil
	}
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp))
}

// readInput reads standard input whole, at most as much as a call may have.
func (a *app) readInput() (string, error) {
	if a.inTerminal {
		fmt.Fprintln(a.err, "reading JSON from the terminal; end with Ctrl-D")
	}
	return readAtMost(a.in, maxArguments)
}
