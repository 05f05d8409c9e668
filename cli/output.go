package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/cli/show"
)

// Print writes one message in the form that --output selects.
func (a *App) Print(m proto.Message, table string) error {
	text := table
	if a.Output != FormTable {
		var err error
		if text, err = show.Message(m, a.Output == FormJSON); err != nil {
			return err
		}
	}
	_, err := io.WriteString(a.Out, text)
	return err
}

// printList writes several messages: one JSON list for json, one line per message for jsonl.
func printList[M proto.Message](a *App, list []M, table string) error {
	if a.Output == FormTable {
		_, err := io.WriteString(a.Out, table)
		return err
	}
	texts := make([]string, len(list))
	for i, m := range list {
		text, err := show.Message(m, a.Output == FormJSON)
		if err != nil {
			return err
		}
		texts[i] = text
	}
	text := strings.Join(texts, "")
	if a.Output == FormJSON {
		for i := range texts {
			texts[i] = strings.TrimSuffix(texts[i], "\n")
		}
		text = "[" + strings.Join(texts, ",\n") + "]\n"
	}
	_, err := io.WriteString(a.Out, text)
	return err
}

// OutputFlag adds --output with the given forms. The first is the default.
func (a *App) OutputFlag(c *cobra.Command, forms ...string) {
	c.Flags().StringVarP(&a.Output, "output", "o", forms[0], "form of the data: "+strings.Join(forms, ", "))
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if !slices.Contains(forms, a.Output) {
			return Usagef("--output %q is not one of %s", a.Output, strings.Join(forms, ", "))
		}
		if before != nil {
			return before(c, args)
		}
		return nil
	}
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp))
}

const maxArguments = 1 << 20 // bytes; no daemon accepts more

// ReadInput reads all of standard input, up to the size limit for the arguments of a call.
func (a *App) ReadInput() (string, error) {
	if a.InTerminal {
		fmt.Fprintln(a.Err, "reading JSON from the terminal; end with Ctrl-D")
	}
	return readAtMost(a.In, maxArguments)
}
