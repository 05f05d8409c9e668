package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/toold-dev/toold/cli/inbox"
	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// workThrough runs the interactive inbox until the user leaves it.
func workThrough(ctx context.Context, a *App, c *client, request *tooldv1.ListCallsRequest, limit int) error {
	in, out, ok := a.terminal()
	if !ok {
		return Usagef("the interactive inbox needs a terminal")
	}
	return inbox.Run(ctx, inbox.Config{
		Daemon: &inboxDaemon{c: c, request: request, limit: limit}, In: in, Out: out,
		Notice: a.heldBack(ctx, c, show.View{Program: a.Program()}), View: a.OutView, Edit: a.edit, Answer: answerOf,
	})
}

// heldBack returns a notice if calls must be released before they can be decided. It returns "" if the daemon does not report such calls.
func (a *App) heldBack(ctx context.Context, c *client, v show.View) string {
	info, err := c.admin.GetInfo(ctx, &tooldv1.GetInfoRequest{})
	if err != nil {
		return "" // the list will report the error
	}
	return v.Held(info)
}

// terminal returns standard input and output if both are terminals that support drawing.
func (a *App) terminal() (in, out *os.File, ok bool) {
	in, isIn := a.In.(*os.File)
	out, isOut := a.Out.(*os.File)
	return in, out, isIn && isOut && a.InTerminal && a.OutTerminal && a.getenv("TERM") != "dumb"
}

// inboxDaemon implements [inbox.Daemon] with the gRPC client.
type inboxDaemon struct {
	c       *client
	request *tooldv1.ListCallsRequest
	limit   int

	changes grpc.ServerStreamingClient[tooldv1.WatchInboxResponse] // nil means no open watch
	ready   bool                                                   // the watch has sent all questions that waited when it began
}

// pollEvery is the pause after a broken watch.
const pollEvery = 2 * time.Second

func (d *inboxDaemon) Waiting(ctx context.Context) (all []*tooldv1.Call, more bool, err error) {
	request := waiting()
	request.Action, request.RunId, request.ThreadId = d.request.GetAction(), d.request.GetRunId(), d.request.GetThreadId()
	err = eachQuestion(ctx, d.c, request, func(call *tooldv1.Call) bool {
		more = d.limit > 0 && len(all) == d.limit
		if !more {
			all = append(all, call)
		}
		return !more
	})
	return all, more, plainError(err)
}

// Changed must be called from one goroutine only.
func (d *inboxDaemon) Changed(ctx context.Context) (err error) {
	if d.changes == nil {
		mask := &fieldmaskpb.FieldMask{Paths: []string{"call_id"}} // The watch only says that something changed; the list reads the calls.
		d.changes, err = d.c.calls.WatchInbox(ctx, &tooldv1.WatchInboxRequest{ReadMask: mask})
		d.ready = false
	}
	for err == nil {
		var res *tooldv1.WatchInboxResponse
		if res, err = d.changes.Recv(); err != nil {
			break
		}
		d.ready = d.ready || res.GetCaughtUp() != nil
		if d.ready && res.GetHeartbeat() == nil {
			return nil
		}
	}
	d.changes = nil
	sleep(ctx, pollEvery)
	return err
}

func (d *inboxDaemon) Claim(ctx context.Context, call *tooldv1.Call) error {
	_, err := d.c.calls.ClaimSuspension(ctx, &tooldv1.ClaimSuspensionRequest{SuspensionId: call.GetSuspension().GetSuspensionId()})
	return plainError(err)
}

func (d *inboxDaemon) Decide(ctx context.Context, call *tooldv1.Call, decision *tooldv1.Decision, taken func()) (string, error) {
	id, err := uuid.NewV7() // created once, so that a repeat after a broken connection is the same decision
	if err != nil {
		return "", err
	}
	decision.DecisionId, decision.ExpectedDigest = id.String(), call.GetSuspension().GetDigest()
	request := &tooldv1.ResumeToolRequest{SuspensionId: call.GetSuspension().GetSuspensionId(), CallId: call.GetCallId(), Decision: decision}
	var end *tooldv1.CallEvent
	reported := false
	f := follower{
		say: func(string) {}, patience: callPatience, pause: sleep,
		done: func() bool { return end != nil },
		take: func(_ context.Context, f *tooldv1.Frame) error {
			if !reported {
				reported = true
				taken()
			}
			for _, e := range f.GetEvents() {
				if e.GetFinished() != nil || e.GetSuspended() != nil || e.GetVoteRecorded() != nil {
					end = e
				}
			}
			return nil
		},
		open: func(ctx context.Context, cursor string) (frames, error) {
			request.Cursor = cursor
			return framesOf(d.c.calls.ResumeTool(ctx, request))
		},
	}
	if err := f.run(ctx); err != nil {
		return "", plainError(err)
	}
	return howItWent(end), nil
}

func howItWent(e *tooldv1.CallEvent) string {
	if e.GetSuspended() != nil {
		return "waits for another decision"
	}
	if v := e.GetVoteRecorded(); v != nil {
		return fmt.Sprintf("%d of %d votes; another approver must vote", v.GetVotes(), v.GetNeeded())
	}
	f := e.GetFinished()
	text := show.Status(f.GetStatus())
	if how := show.BadExit(f.GetResult()); how != "" {
		text += ", " + how
	}
	if d := f.GetResult().GetDuration(); d.AsDuration() > 0 {
		text += " in " + show.Duration(d.AsDuration())
	}
	if m := f.GetResult().GetError().GetMessage(); m != "" {
		text += ": " + m
	}
	return text
}

// plainError turns an error from the daemon into one line of text.
func plainError(err error) error {
	st, ok := refusal(err)
	if err == nil || !ok {
		return err
	}
	_, violations, _ := detailsOf(st)
	parts := []string{messageOf(st)}
	for _, v := range violations {
		if text := v.GetField() + ": " + v.GetDescription(); !strings.Contains(st.Message(), v.GetDescription()) {
			parts = append(parts, text)
		}
	}
	return errors.New(strings.Join(parts, "; "))
}
