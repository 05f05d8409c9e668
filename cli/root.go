package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Run executes one command line and returns the exit code.
func (a *App) Run(ctx context.Context, args []string) int {
	root := a.Root()
	root.SetArgs(args)
	return a.report(ctx, root.ExecuteContext(ctx))
}

// Add gives the command line a command beside those that talk to a daemon. below names the command that it belongs to; empty is the
// group of the daemon.
func (a *App) Add(below string, c *cobra.Command) { a.added = append(a.added, addition{below, c}) }

// An addition is a command with its place.
type addition struct {
	below   string
	command *cobra.Command
}

// The groups of "toold help".
const (
	groupCalls  = "calls"
	groupPeople = "people"
	groupDaemon = "daemon"
)

// Root returns the command line with all its commands.
func (a *App) Root() *cobra.Command {
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
		Args:                       NoArgs,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return Usagef("%w\n  see: %s --help", err, c.CommandPath())
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
	group(groupDaemon, a.rulesCommand(), a.tokenCommand(), a.infoCommand(), a.hooksCommand(), a.secretsCommand(), a.healthCommand(), a.reloadCommand(), a.drainCommand(), a.logLevelCommand())
	group(groupDaemon, a.releaseCommand(), a.purgeCommand())
	root.AddCommand(a.versionCommand(), &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesHelp})
	for _, added := range a.added {
		if added.below == "" {
			group(groupDaemon, added.command)
			continue
		}
		for _, c := range root.Commands() {
			if c.Name() == added.below {
				c.AddCommand(added.command)
			}
		}
	}
	a.runFlags(root)
	return root
}

// NoArgs checks that there are no arguments. [ExactArgs] and [AtLeast] are others of cobra's checks with words for people.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if !c.HasSubCommands() {
		return Usagef("%s takes no arguments, got %q\n  see: %s --help", c.CommandPath(), args[0], c.CommandPath())
	}
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		text += fmt.Sprintf("; did you mean %q?", near[0])
	}
	return Usagef("%s\n  see: %s --help", text, c.CommandPath())
}

// ExactArgs checks that there is an argument for each name.
func ExactArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return Usagef("%s takes %s\n  see: %s --help", c.CommandPath(), strings.Join(names, " and "), c.CommandPath())
	}
}

// AtLeast checks that there is an argument.
func AtLeast(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return nil
		}
		return Usagef("%s needs %s\n  see: %s --help", c.CommandPath(), name, c.CommandPath())
	}
}
