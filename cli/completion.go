package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const completionTime = 500 * time.Millisecond // Short, because a shell that blocks is worse than one that offers no words.

// complete asks the daemon for the possible first arguments. If no daemon answers, it offers nothing.
func (a *App) complete(args []string, word string, ask func(context.Context, *client) []string) ([]string, cobra.ShellCompDirective) {
	const no = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, no
	}
	c, err := a.dial()
	if err != nil {
		return nil, no
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	var fitting []string
	for _, w := range ask(ctx, c) {
		if strings.HasPrefix(w, word) {
			fitting = append(fitting, w)
		}
	}
	return fitting, no
}

func (a *App) completeTools(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	return a.complete(args, word, func(ctx context.Context, c *client) (words []string) {
		page, err := c.tools.ListTools(ctx, &tooldv1.ListToolsRequest{})
		if err != nil {
			return nil
		}
		for _, t := range page.GetTools() {
			title, _, _ := strings.Cut(strings.TrimSpace(t.GetDescription()), "\n")
			words = append(words, show.Line(t.GetId())+"\t"+show.Line(title))
		}
		return words
	})
}

func (a *App) completeCalls(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	return a.complete(args, word, func(ctx context.Context, c *client) (words []string) {
		page, err := c.calls.ListCalls(ctx, &tooldv1.ListCallsRequest{ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"call_id", "status", "tool"}}})
		if err != nil {
			return nil
		}
		for _, call := range page.GetCalls() {
			words = append(words, show.Line(call.GetCallId())+"\t"+show.Line(call.GetTool())+" "+show.Status(call.GetStatus()))
		}
		return words
	})
}

func (a *App) completeWaiting(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	return a.complete(args, word, func(ctx context.Context, c *client) (words []string) {
		page, err := c.calls.ListCalls(ctx, waiting())
		if err != nil {
			return nil
		}
		for _, call := range page.GetCalls() {
			s := call.GetSuspension()
			words = append(words, show.Line(s.GetSuspensionId())+"\t"+show.Line(s.GetPending().GetName()+" "+s.GetDescription().GetTitle()))
		}
		return words
	})
}

// completeRuns offers the run ids of the newest calls. Threads are completed the same way.
func (a *App) completeRuns(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	return a.completeOf(args, word, func(r *tooldv1.Run) string { return r.GetRunId() })
}

func (a *App) completeThreads(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	return a.completeOf(nil, word, func(r *tooldv1.Run) string { return r.GetThreadId() })
}

func (a *App) completeOf(args []string, word string, id func(*tooldv1.Run) string) ([]string, cobra.ShellCompDirective) {
	return a.complete(args, word, func(ctx context.Context, c *client) (words []string) {
		page, err := c.calls.ListCalls(ctx, &tooldv1.ListCallsRequest{
			PageSize: 100, ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"run", "tool", "status"}},
		})
		if err != nil {
			return nil
		}
		seen := map[string]bool{}
		for _, call := range page.GetCalls() {
			if name := id(call.GetRun()); name != "" && !seen[name] {
				seen[name] = true
				words = append(words, show.Line(name)+"\tlast "+show.Line(call.GetTool())+" "+show.Status(call.GetStatus()))
			}
		}
		return words
	})
}

// runFlags adds completion to the flags that name a run or a thread.
func (a *App) runFlags(c *cobra.Command) {
	if c.Flags().Lookup("run") != nil {
		_ = c.RegisterFlagCompletionFunc("run", func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
			return a.completeRuns(c, nil, word)
		})
	}
	if c.Flags().Lookup("thread") != nil {
		_ = c.RegisterFlagCompletionFunc("thread", a.completeThreads)
	}
	for _, below := range c.Commands() {
		a.runFlags(below)
	}
}
