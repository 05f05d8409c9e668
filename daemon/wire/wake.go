package wire

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/subagent"
)

// SubagentWaker is the name of the waker among the hooks.
const SubagentWaker = "subagent"

// A Waker resumes subagents whose calls have ended, and ends the runs of subagents that have ended. It stores its tasks as posts in the
// same commit as the change of the call, so a crash loses none.
type Waker struct {
	tools map[string]bool
	woken chan struct{} // has a capacity of one
}

// NewWaker returns a waker for the subagents with these ids.
func NewWaker(ids []string) *Waker {
	w := &Waker{tools: map[string]bool{}, woken: make(chan struct{}, 1)}
	for _, id := range ids {
		w.tools[id] = true
	}
	return w
}

// wake is the payload of a post: a call that may resume, or a run whose call has ended.
type wake struct {
	Call string `json:"call_id,omitempty"`
	Run  string `json:"run_id,omitempty"`
}

const (
	wakeQueue  = "wake"
	wakePage   = 64
	wakeAtOnce = 8
	wakeMost   = 15 * time.Second // longest time between two reads of the stored posts
	wakeAgain  = time.Second      // time to the next read after a failed one
)

// Notify implements [hook.Notifier]. When a subagent suspends itself, Notify also adds a post, because the calls of the subagent may have
// ended just before.
func (w *Waker) Notify(n hook.Notice) (posts []hook.Post) {
	add := func(what wake) {
		b, _ := json.Marshal(what) // cannot fail for strings
		posts = append(posts, hook.Post{Queue: wakeQueue, Payload: string(b)})
	}
	switch c := n.Call; {
	case n.Event.Type == call.EventSuspended:
		if w.tools[c.Tool] && n.Event.Suspension.Action == subagent.Action {
			add(wake{Call: c.ID})
		}
	case n.Event.Type == call.EventFinished:
		if c.Run.Origin == subagent.Origin && c.Run.ParentCall != "" {
			add(wake{Call: c.Run.ParentCall})
		}
		if w.tools[c.Tool] {
			if run := subagent.RunOf(c.ID, c.Checkpoint); run != "" {
				add(wake{Run: run})
			}
		}
	}
	return posts
}

// Wake implements [hook.Notifier].
func (w *Waker) Wake(string) {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// Run handles posts until ctx is done.
func (w *Waker) Run(ctx context.Context, e *lifecycle.Engine, log *zap.Logger) {
	for {
		wait := wakeMost
		if err := w.look(ctx, e); err != nil && ctx.Err() == nil {
			log.Debug("a waiting subagent was not resumed; will try again", zap.Error(err))
			wait = wakeAgain
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-w.woken:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// look handles all stored posts. A post that fails stays stored for the next look.
func (w *Waker) look(ctx context.Context, e *lifecycle.Engine) (failed error) {
	for after := int64(0); ctx.Err() == nil; {
		page, err := e.Outbox().Posts(ctx, SubagentWaker, wakeQueue, after, wakePage)
		if err != nil || len(page) == 0 {
			return errors.Join(failed, err)
		}
		var all sync.WaitGroup
		slots, errs := make(chan struct{}, wakeAtOnce), make([]error, len(page))
		for i := range page {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				errs[i] = w.handle(ctx, e, &page[i])
			})
		}
		all.Wait()
		failed, after = errors.Join(failed, errors.Join(errs...)), page[len(page)-1].Position
	}
	return failed
}

func (w *Waker) handle(ctx context.Context, e *lifecycle.Engine, post *store.Action) error {
	var what wake
	if post.Broken || json.Unmarshal([]byte(post.Payload), &what) != nil {
		return e.Outbox().SettlePost(ctx, post.Namespace, post.ID, 1, "the stored row is damaged")
	}
	// No user has requested this, so the waker acts as an operator. The engine checks access again when the call runs.
	as := tool.Principal{Namespace: post.Namespace, Subject: "toold", Roles: []string{"operator"}, Method: "subagent"}
	var err error
	if what.Run != "" {
		_, err = e.EndRun(ctx, as, what.Run, "its subagent has ended", "")
	} else {
		err = w.wake(ctx, e, as, what.Call)
	}
	if err != nil && !past(err) {
		return err
	}
	return e.Outbox().SettlePost(ctx, post.Namespace, post.ID, 1, "")
}

// past reports whether err means that there is nothing to do any more: the call or run no longer exists, or was already resumed or ended.
func past(err error) bool {
	r, ok := errors.AsType[*call.Refusal](err)
	return ok && (r.Kind == call.NotFound || r.Kind == call.FailedPrecondition)
}

// wake resumes a suspended subagent if all calls for which it waits have ended.
func (w *Waker) wake(ctx context.Context, e *lifecycle.Engine, as tool.Principal, id string) error {
	c, err := e.Settled(ctx, call.Key{Namespace: as.Namespace, ID: id})
	if err != nil {
		return err
	}
	open := c.Open()
	if !w.tools[c.Tool] || open == nil || open.Origin != call.OriginTool || open.Action != subagent.Action {
		return nil
	}
	for _, id := range subagent.Waiting(c.Checkpoint) {
		child, err := e.Settled(ctx, call.Key{Namespace: as.Namespace, ID: id})
		switch {
		case err != nil && !past(err):
			return err
		case err == nil && !child.Status.Terminal():
			return nil // This call has not ended yet. Its end will add another post.
		}
	}
	watcher, err := e.Resume(ctx, as, call.ResumeRequest{SuspensionID: open.ID, CallID: c.ID, Decision: tool.Decision{
		ID: "subagent-" + rand.Text(), Action: tool.Resume, Reason: "its calls have ended", ExpectedDigest: open.Digest,
	}})
	if err != nil {
		return err
	}
	watcher.Close()
	return nil
}
