package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// usage prints how to use a command. It replaces the template that cobra uses: if a program can run templates, the linker must keep every
// exported method of every type, because a template might call it. That would make the binary 5 MB larger.
func usage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:")
	if c.Runnable() {
		b.WriteString("\n  " + c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\n  " + c.CommandPath() + " [command]")
	}
	if len(c.Aliases) > 0 {
		b.WriteString("\n\nAliases:\n  " + c.NameAndAliases())
	}
	if c.HasExample() {
		b.WriteString("\n\nExamples:\n" + c.Example)
	}
	if c.HasAvailableSubCommands() {
		for _, group := range c.Groups() {
			subcommands(&b, c, group.Title, group.ID)
		}
		title := "Available Commands:"
		if len(c.Groups()) > 0 {
			title = "Additional Commands:"
		}
		subcommands(&b, c, title, "")
	}
	if c.HasAvailableLocalFlags() {
		b.WriteString("\n\nFlags:\n" + strings.TrimRight(c.LocalFlags().FlagUsagesWrapped(80), " \n"))
	}
	if c.HasAvailableInheritedFlags() {
		b.WriteString("\n\nGlobal Flags:\n" + strings.TrimRight(c.InheritedFlags().FlagUsagesWrapped(80), " \n"))
	}
	if c.HasHelpSubCommands() {
		b.WriteString("\n\nAdditional help topics:")
		for _, topic := range c.Commands() {
			if topic.IsAdditionalHelpTopicCommand() {
				fmt.Fprintf(&b, "\n  %-*s %s", topic.CommandPathPadding(), topic.CommandPath(), topic.Short)
			}
		}
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\nUse %q for more.", c.CommandPath()+" [command] --help")
	}
	b.WriteByte('\n')
	_, err := c.OutOrStderr().Write([]byte(b.String()))
	return err
}

// subcommands prints the subcommands of a group. It prints nothing for an empty group.
func subcommands(b *strings.Builder, c *cobra.Command, title, group string) {
	for _, sub := range c.Commands() {
		if sub.GroupID != group || !sub.IsAvailableCommand() && sub.Name() != "help" {
			continue
		}
		if title != "" {
			b.WriteString("\n\n" + title)
			title = ""
		}
		fmt.Fprintf(b, "\n  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short)
	}
}
