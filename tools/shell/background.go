package shell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

func (a *arguments) inBackground() bool { return a.Background || a.BackgroundAfter > 0 }

// runJob runs a command that may continue after its call. It returns when the command ends, or when the command moves to the background.
func (s *shell) runJob(ctx context.Context, call *tool.Call, args *arguments) (*tool.Result, error) {
	if s.jobs == nil {
		return nil, &tool.Error{Code: tool.InvalidArguments, Reason: "NO_BACKGROUND", Message: "Background commands are not available here."}
	}
	out := newOutput(call.ID, s.cfg.OutputBudget, args.PTY != nil)
	limit := s.cfg.Background.Lifetime
	if args.Timeout > 0 {
		limit = min(limit, time.Duration(args.Timeout)*time.Second)
	}
	spec := s.spec(call, args)
	if args.typed() { // The input comes only from calls of bash_input, because gates check these calls.
		spec.Stdin = newKeys()
	}
	n, err := s.jobs.start(call, args.Command, spec, limit, func(stream string, chunk []byte) error {
		out.stream(stream).write(chunk)
		return call.Output(stream, chunk)
	})
	if err != nil {
		return nil, err
	}
	wait := time.NewTimer(time.Duration(args.BackgroundAfter) * time.Second)
	defer wait.Stop()
	for begun := n.started; ; {
		leave := false
		select {
		case <-n.ended:
			s.jobs.forget(n)
			return s.ended(ctx, out, n.exit, n.err, limit)
		case <-ctx.Done():
		case <-begun:
			begun, leave = nil, args.Background
		case <-wait.C:
			leave = !args.Background
		}
		switch {
		case ctx.Err() != nil: // The call was cancelled before its command moved to the background, so the command must end too.
			n.cancel(context.Cause(ctx))
			<-n.ended // This wait is short, because Exec.Run ends within a bounded time after a cancel.
			s.jobs.forget(n)
			return s.ended(ctx, out, n.exit, n.err, limit)
		case leave:
			n.detach()
			return out.leftRunning(n), nil
		}
	}
}

// ended returns the result of a call whose command ended during the call, so it is not in the background.
func (s *shell) ended(ctx context.Context, out *output, exit *sandbox.Exit, err error, limit time.Duration) (*tool.Result, error) {
	switch {
	case exit == nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case exit == nil:
		return nil, notStarted(err)
	case err == nil:
		return out.finished(exit), nil
	case ctx.Err() == nil && (errors.Is(err, errTimedOut) || errors.Is(err, errLifetime)):
		return out.timedOut(exit, limit), nil
	default:
		// The call has failed with err. The result only adds, for the record, how the processes ended.
		return &tool.Result{Status: tool.StatusError, Process: processReport(exit)}, err
	}
}

func (o *output) leftRunning(n *job) *tool.Result {
	return o.fit(&sandbox.Exit{Code: -1}, false, func(d Data, text string) *tool.Result {
		d.Shell, d.Running = n.id, true
		if text != "" {
			text += "\n"
		}
		return tool.SuccessMessage(d, "%s[Continues in the background as shell %s. bash_output shows its further output, bash_kill ends it.]", text, n.id)
	})
}

// state returns the status of a shell, a short text about it and its exit code.
func (n *job) state() (status, text string, code int) {
	switch {
	case !n.over():
		return "running", "running since " + n.began.UTC().Format(time.RFC3339), -1
	case n.exit == nil:
		return "failed", "it could not be started", -1
	case n.err != nil:
		return "killed", "ended: " + n.err.Error(), n.exit.Code
	case n.exit.OOMKills > 0:
		return "exited", "ran out of memory: " + n.exit.OutOfMemory(), n.exit.Code
	case n.exit.Signal != "":
		return "exited", "ended by signal " + n.exit.Signal, n.exit.Code
	default:
		return "exited", fmt.Sprintf("ended with exit code %d", n.exit.Code), n.exit.Code
	}
}
