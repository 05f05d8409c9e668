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

// Add adds a command to the group, such as [GroupStore].
func (a *App) Add(group string, c *cobra.Command) { a.added = append(a.added, addition{"", group, c}) }

// AddTo adds a subcommand to the command named parent.
func (a *App) AddTo(parent string, c *cobra.Command) {
	a.added = append(a.added, addition{parent, "", c})
}

// An addition is a command with its group and its parent. An empty parent is the root.
type addition struct {
	parent, group string
	command       *cobra.Command
}

// The groups of "toold help". The groups for [App.Add] have exported names.
const (
	groupCalls       = "calls"
	groupPeople      = "people"
	groupTools       = "tools"
	groupRuns        = "runs"
	GroupStore       = "store"
	groupAccess      = "access"
	GroupDiagnostics = "diagnostics"
)

// Root returns the root command with all its subcommands.
func (a *App) Root() *cobra.Command {
	root := &cobra.Command{
		Use:   "toold",
		Short: "Run tools for language models, with approval by people",
		Long: `toold runs tools for orchestrators of language models. For each call it checks
the arguments, asks people for approval where the rules require it, runs the
tool, streams the events, and stores one result.

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
	root.AddGroup(&cobra.Group{ID: groupCalls, Title: "Calls:"}, &cobra.Group{ID: groupPeople, Title: "People:"}, &cobra.Group{ID: groupTools, Title: "Tools:"},
		&cobra.Group{ID: groupRuns, Title: "Runs:"}, &cobra.Group{ID: GroupStore, Title: "Store:"}, &cobra.Group{ID: groupAccess, Title: "Access:"},
		&cobra.Group{ID: GroupDiagnostics, Title: "Daemon and diagnostics:"})
	group := func(id string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	group(groupCalls, artifactCommand(a), batchCommand(a), callCommand(a), callsCommand(a), cancelCommand(a), countsCommand(a), describeCommand(a), inputCommand(a), watchCommand(a))
	group(groupPeople, answerCommand(a), approveCommand(a), claimCommand(a), declineCommand(a), inboxCommand(a))
	group(groupTools, hooksCommand(a), mcpCommand(a), toolsCommand(a), workersCommand(a))
	group(groupRuns, documentsCommand(a), modeCommand(a), runsCommand(a), threadsCommand(a))
	group(GroupStore, purgeCommand(a), releaseCommand(a))
	group(groupAccess, auditCommand(a), loginCommand(a), rulesCommand(a), secretsCommand(a), tokenCommand(a), whoAmICommand(a))
	group(GroupDiagnostics, drainCommand(a), healthCommand(a), infoCommand(a), loadCommand(a), logLevelCommand(a), reloadCommand(a), statusCommand(a), versionCommand(a))
	root.AddCommand(&cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesHelp})
	for _, added := range a.added {
		parent := root
		for _, c := range root.Commands() {
			if c.Name() == added.parent {
				parent = c
			}
		}
		added.command.GroupID = added.group
		parent.AddCommand(added.command)
	}
	a.runFlags(root)
	return root
}

// NoArgs checks that there are no arguments. Like [ExactArgs] and [AtLeast] it replaces a check of cobra, with a clearer message.
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

// ExactArgs checks that there is one argument for each name.
func ExactArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return Usagef("%s takes %s\n  see: %s --help", c.CommandPath(), strings.Join(names, " and "), c.CommandPath())
	}
}

// AtLeast checks that there is at least one argument. name describes it in the error.
func AtLeast(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return nil
		}
		return Usagef("%s needs %s\n  see: %s --help", c.CommandPath(), name, c.CommandPath())
	}
}
