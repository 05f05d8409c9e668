package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
	"go.uber.org/zap"
)

// postPage is how many posts are looked at together.
const postPage = 256

// posts returns what notifiers want told of events that are going to be stored with the call.
func (e *Engine) posts(c *call.Call, events []call.Event) (posts []store.Action) {
	notifiers := e.hooks.Load().Notifier
	if len(notifiers) == 0 {
		return nil
	}
	for i := range events {
		if t := events[i].Type; t != call.EventSuspended && t != call.EventFinished {
			continue
		}
		for j := range notifiers {
			posts = append(posts, e.postsOf(&notifiers[j], c, &events[i])...)
		}
	}
	return posts
}

func (e *Engine) postsOf(entry *hook.Entry[hook.Notifier], c *call.Call, ev *call.Event) (posts []store.Action) {
	var asked []hook.Post
	err := hook.Safely(func() error {
		asked = entry.Hook.Notify(hook.Notice{StoreID: e.store.Identity().StoreID, Call: c, Event: ev})
		return nil
	})
	for i := range asked {
		queue := queueOf(entry.Name, asked[i].Queue)
		a := store.Action{
			Namespace: c.Namespace, ID: "a-" + newID(), CallID: c.ID, Run: c.Run.ID, Thread: c.Run.Thread, Batch: c.BatchID, Caller: c.Caller.Subject,
			Action: tool.Action{Handler: queue, Phase: tool.AfterCommit, Payload: asked[i].Payload}, Queue: queue,
			Round: 1, State: store.ActionPending, Created: e.store.Now(),
		}
		if wrong := checkAction(&a.Action); wrong != nil {
			err = errors.Join(err, wrong)
			continue
		}
		posts = append(posts, a)
	}
	if err != nil {
		e.stats.hookFailures.Add(1)
		e.log.Error("notifier failed", zap.String("hook", entry.Name), zap.String("call_id", c.ID), zap.Error(err))
	}
	return posts
}

func queueOf(notifier, queue string) string { return notifier + "/" + queue }

// posted tells notifiers of what has committed.
func (e *Engine) posted(actions []store.Action) {
	for i := range actions {
		notifier, queue, _ := strings.Cut(actions[i].Queue, "/")
		if actions[i].Queue == "" {
			continue
		}
		for _, n := range e.hooks.Load().Notifier {
			if n.Name == notifier {
				n.Hook.Wake(queue)
			}
		}
	}
}

// Posts returns at most limit posts that wait in a queue of a notifier behind a position, in the order of their commits. Those
// of a copied store are the original's, as long as its calls are held.
func (e *Engine) Posts(ctx context.Context, notifier, queue string, after int64, limit int) ([]store.Action, error) {
	if e.held.on.Load() {
		return nil, nil
	}
	return e.store.Actions(ctx, store.ActionQuery{
		State: store.ActionPending, Phase: tool.AfterCommit, End: queueOf(notifier, queue), After: after, Limit: limit,
	})
}

// SettlePost removes a post that was delivered, or keeps it as a dead letter when failed says why it never will be. One that is
// gone already, as after a purge, is no error.
func (e *Engine) SettlePost(ctx context.Context, namespace, id string, attempts int, failed string) error {
	done := &store.Amendment{Namespace: namespace, Done: id}
	if failed != "" {
		found, err := e.store.Actions(ctx, store.ActionQuery{Namespace: namespace, ID: id})
		if err != nil || len(found) == 0 || found[0].State != store.ActionPending || found[0].Broken {
			return err
		}
		done.Actions = []store.Action{e.deadPost(found[0], attempts, failed)}
	}
	_, err := e.store.Amend(ctx, done)
	if errors.Is(err, store.ErrFatal) {
		e.fatal(err)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

func (e *Engine) deadPost(a store.Action, attempts int, why string) store.Action {
	text := e.scrubbed(why)
	a.State, a.Attempts, a.Error = store.ActionDead, a.Attempts+attempts, readable(text[:min(len(text), maxError)])
	e.log.Error("not delivered; it is kept as a dead letter", zap.String("action_id", a.ID), zap.String("call_id", a.CallID),
		zap.String("handler", a.Handler), zap.Int("attempts", a.Attempts), zap.String("error", a.Error))
	return a
}

// KeepQueues makes dead letters of the posts of a notifier that wait in other queues than these: nobody takes them any more.
func (e *Engine) KeepQueues(ctx context.Context, notifier string, queues []string) error {
	for after := int64(0); !e.held.on.Load(); {
		page, err := e.store.Actions(ctx, store.ActionQuery{State: store.ActionPending, After: after, Limit: postPage})
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			of, queue, _ := strings.Cut(page[i].Queue, "/")
			if page[i].Queue == "" || of != notifier || slices.Contains(queues, queue) {
				continue
			}
			if err := e.SettlePost(ctx, page[i].Namespace, page[i].ID, 0, "nothing of this name is configured any more"); err != nil {
				return err
			}
		}
		after = page[len(page)-1].Position
	}
	return nil
}
