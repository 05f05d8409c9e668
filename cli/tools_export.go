package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// formatNames returns the values of --for.
func formatNames() []string {
	names := make([]string, 0, len(tooldv1.ExportFormat_name)-1)
	for n := range int32(len(tooldv1.ExportFormat_name)) {
		if n > 0 {
			names = append(names, formatName(tooldv1.ExportFormat(n)))
		}
	}
	return names
}

func formatName(f tooldv1.ExportFormat) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(f.String(), "EXPORT_FORMAT_")), "_", "-")
}

func exportCommand(a *App) *cobra.Command {
	var format string
	var guidance, readOnly bool
	request := &tooldv1.ExportToolsRequest{Offered: &tooldv1.OfferedTools{}}
	c := &cobra.Command{
		Use: "export --for PROVIDER", Short: "Print the tools in the format of a model provider", Args: NoArgs,
		Long: `Prints the list for the member "tools" of a request to a provider. When the
provider does not accept a part of a schema, toold moves this part into the
description. The changes go to standard error; with -o json, the output also
contains them.`,
		Example: `  toold tools export --for anthropic > tools.json
  toold tools export --for openai-strict --allow 'todo_*' --allow read
  toold tools export --for anthropic --max-tools 20 --query 'triage new bugs'
  toold tools export --for gemini --guidance`,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			i := slices.Index(formatNames(), format)
			if i < 0 {
				return Usagef("--for %q is not one of %s", format, strings.Join(formatNames(), ", "))
			}
			request.Format = tooldv1.ExportFormat(i + 1)
			if readOnly {
				request.Mutability = tooldv1.Mutability_MUTABILITY_READ_ONLY
			}
			return a.export(ctx, c, request, guidance)
		}),
	}
	flags := c.Flags()
	flags.StringVar(&format, "for", "", strings.Join(formatNames(), ", "))
	flags.StringSliceVar(&request.Offered.Allow, "allow", nil, "only tools whose id matches one of these patterns, such as todo_*")
	flags.StringSliceVar(&request.Offered.Exclude, "exclude", nil, "omit tools whose id matches one of these patterns")
	flags.StringVar(&request.Source, "source", "", "only tools of this source, such as builtin")
	flags.StringVar(&request.Category, "category", "", "only tools of this category")
	flags.BoolVar(&readOnly, "read-only", false, "only tools that change nothing")
	flags.Int32Var(&request.MaxTools, "max-tools", 0, "largest number of tools: the most useful ones, and tool_search, which finds the others; 0 means all")
	flags.StringVar(&request.Query, "query", "", "with --max-tools, prefer tools that match this text, such as the task")
	flags.StringSliceVar(&request.Include, "include", nil, "with --max-tools, prefer these tools, by id")
	flags.BoolVar(&guidance, "guidance", false, "print the guidance for models instead of the list")
	_ = c.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(formatNames(), cobra.ShellCompDirectiveNoFileComp))
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}

// export prints all pages as one list.
func (a *App) export(ctx context.Context, c *client, request *tooldv1.ExportToolsRequest, guidance bool) error {
	all := &tooldv1.ExportToolsResponse{}
	var tools []json.RawMessage
	var texts []string
	for {
		page, err := c.tools.ExportTools(ctx, request)
		if err != nil {
			return err
		}
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(page.GetTools()), &list); err != nil {
			return fmt.Errorf("the daemon's list: %w", err)
		}
		tools = append(tools, list...)
		if page.GetGuidance() != "" {
			texts = append(texts, page.GetGuidance())
		}
		all.Exported = append(all.Exported, page.GetExported()...)
		all.Omitted, all.Notes = append(all.Omitted, page.GetOmitted()...), append(all.Notes, page.GetNotes()...)
		all.Revision = page.GetRevision()
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			break
		}
	}
	raw, err := json.Marshal(append([]json.RawMessage{}, tools...))
	if err != nil {
		return err
	}
	all.Tools, all.Guidance = string(raw), strings.Join(texts, "\n\n")
	if a.Output != FormTable {
		return a.Print(all, "")
	}
	reportChanges(a, all)
	text := show.JSON(all.GetTools()) + "\n"
	if guidance {
		text = show.Text(all.GetGuidance()) + "\n"
	}
	_, err = io.WriteString(a.Out, text)
	return err
}

// reportChanges reports on standard error how the exported list differs from the tools: omitted or changed parts.
func reportChanges(a *App, all *tooldv1.ExportToolsResponse) {
	for _, note := range all.GetNotes() {
		fmt.Fprintf(a.Err, "toold: %s\n", show.Line(note))
	}
	for _, o := range all.GetOmitted() {
		fmt.Fprintf(a.Err, "toold: %s is omitted: %s\n", show.Line(o.GetTool()), show.Line(o.GetReason()))
	}
	for _, e := range all.GetExported() {
		for _, note := range e.GetNotes() {
			fmt.Fprintf(a.Err, "toold: %s: %s\n", show.Line(e.GetTool()), show.Line(note))
		}
		if nulls := e.GetNullArguments(); len(nulls) > 0 {
			fmt.Fprintf(a.Err, "toold: %s: null means omitted at %s\n", show.Line(e.GetTool()), show.Line(strings.Join(nulls, " ")))
		}
	}
}
