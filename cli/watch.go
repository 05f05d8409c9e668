package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// watchFlags holds the flags that select what to watch.
type watchFlags struct {
	run, thread, batch, cursor string
	all, noReconnect           bool
	tree, lines                bool
	noFollow, beginning        bool
}

func (f *watchFlags) request(args []string) (*tooldv1.WatchCallsRequest, error) {
	r := &tooldv1.WatchCallsRequest{Follow: !f.noFollow}
	n := len(args)
	if n == 1 {
		r.Selector = &tooldv1.WatchCallsRequest_CallId{CallId: args[0]}
	}
	if f.run != "" {
		n++
		r.Selector = &tooldv1.WatchCallsRequest_RunId{RunId: f.run}
	}
	if f.thread != "" {
		n++
		r.Selector = &tooldv1.WatchCallsRequest_ThreadId{ThreadId: f.thread}
	}
	if f.batch != "" {
		n++
		r.Selector = &tooldv1.WatchCallsRequest_BatchId{BatchId: f.batch}
	}
	if f.all {
		n++
		r.Selector = &tooldv1.WatchCallsRequest_Namespace{Namespace: true}
	}
	switch {
	case n != 1:
		return nil, Usagef("watch takes one of CALL, --run, --thread, --batch and --all")
	case f.tree && f.run == "", f.tree && f.lines:
		return nil, Usagef("--tree needs --run, and excludes --lines")
	case f.beginning && f.cursor != "":
		return nil, Usagef("--from-start and --cursor exclude each other")
	case f.beginning && len(args) == 0:
		return nil, Usagef("--from-start needs a CALL")
	}
	return r, nil
}

func watchCommand(a *App) *cobra.Command {
	var f watchFlags
	c := &cobra.Command{
		Use:   "watch CALL | --run RUN | --thread THREAD | --batch BATCH | --all",
		Short: "Watch a call or batch to its end, or the calls of a run or thread",
		Long: `Shows the events of calls. Progress goes to standard error, and the output of
tools to standard output. On a terminal the calls of a run are a tree that
updates itself; --lines shows the events instead.

When the connection breaks, the command connects again and continues from the
last cursor. No event is lost or repeated. At the end the command prints the
last cursor on standard error. --cursor continues there.

The watch of one call begins with a snapshot of the call, or with its first
event (--from-start). With -o jsonl each line is a frame of the API. A frame has
events or one control, and a cursor.`,
		Example: `  toold watch 0198c1c2-5c1e-7a4b-9d3e-1f2a3b4c5d6e
  toold watch --run r-17
  toold watch --run r-17 -o jsonl | jq -c '.events[]?'`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return Usagef("%s takes one CALL", c.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: a.completeCalls,
		RunE: func(c *cobra.Command, args []string) error {
			request, err := f.request(args)
			if err != nil {
				return err
			}
			client, err := a.dial()
			if err != nil {
				return err
			}
			defer client.close()
			_, _, terminal := a.terminal()
			switch {
			case f.tree && !terminal && !f.noFollow:
				return Usagef("--tree needs a terminal, or --no-follow")
			case f.run != "" && a.Output == FormTable && (f.tree || terminal && !f.lines):
				return watchTree(c.Context(), a, client, request, &f)
			}
			return a.watch(c.Context(), client, request, &f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.run, "run", "", "the calls of this run")
	flags.StringVar(&f.thread, "thread", "", "the calls of this thread")
	flags.StringVar(&f.batch, "batch", "", "the calls of this batch, until the last call ends")
	flags.BoolVar(&f.all, "all", false, "all calls of the namespace (roles viewer, operator)")
	flags.StringVar(&f.cursor, "cursor", "", "show the events after this cursor")
	flags.BoolVar(&f.beginning, "from-start", false, "begin with the call's first event")
	flags.BoolVar(&f.tree, "tree", false, "with --run: draw its calls as a tree (the default on a terminal)")
	flags.BoolVar(&f.lines, "lines", false, "with --run: print events line by line, also on a terminal")
	flags.BoolVar(&f.noFollow, "no-follow", false, "print the stored events, then exit")
	flags.BoolVar(&f.noReconnect, "no-reconnect", false, "exit when the connection breaks")
	a.OutputFlag(c, FormTable, FormJSONL)
	return c
}

func (a *App) watch(ctx context.Context, client *client, request *tooldv1.WatchCallsRequest, f *watchFlags) error {
	isCall := request.GetCallId() != ""
	p := a.newPrinter(client, !isCall)
	defer p.close()
	p.callID = request.GetCallId()
	p.screen.wait("watching")
	follow := follower{
		cursor: f.cursor, take: p.take, say: p.screen.say, patience: -1, pause: sleep,
		done: func() bool { return isCall && isEnd(p.status) || p.batchFinished || f.noFollow && p.caughtUp },
		open: func(ctx context.Context, cursor string) (frames, error) {
			request.Cursor, request.AfterSequence = cursor, nil
			if cursor == "" && f.beginning {
				request.AfterSequence = new(int64)
			}
			return framesOf(client.calls.WatchCalls(ctx, request))
		},
	}
	if f.noReconnect {
		follow.patience = 0
	}
	err := follow.run(ctx)
	if follow.cursor != "" {
		p.screen.say(fmt.Sprintf("cursor     %s\n", show.Line(follow.cursor)))
	}
	if err != nil || !isCall {
		return err
	}
	return p.finish(ctx)
}
