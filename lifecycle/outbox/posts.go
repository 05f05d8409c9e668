package outbox

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// postPage is the number of actions that one query for posts returns.
const postPage = 256

// NewPosts returns the posts that notifiers request for a step of a call and its events.
func (o *Outbox) NewPosts(c *call.Call, events []call.Event) (posts []store.Action) {
	notifiers := o.cfg.Hooks().Notifier
	if len(notifiers) == 0 {
		return nil
	}
	for i := range events {
		if t := events[i].Type; t != call.EventSuspended && t != call.EventFinished {
			continue
		}
		for j := range notifiers {
			posts = append(posts, o.postsOf(&notifiers[j], c, &events[i])...)
		}
	}
	return posts
}

func (o *Outbox) postsOf(entry *hook.Entry[hook.Notifier], c *call.Call, ev *call.Event) (posts []store.Action) {
	var asked []hook.Post
	err := hook.Safely(func() error {
		asked = entry.Hook.Notify(hook.Notice{StoreID: o.cfg.Store.Identity().StoreID, Call: c, Event: ev})
		return nil
	})
	for i := range asked {
		queue := queueOf(entry.Name, asked[i].Queue)
		a := store.Action{
			Namespace: c.Namespace, ID: newActionID(), CallID: c.ID, Run: c.Run.ID, Thread: c.Run.Thread, Batch: c.BatchID, Caller: c.Caller.Subject,
			Action: tool.Action{Handler: queue, Phase: tool.AfterCommit, Payload: asked[i].Payload}, Queue: queue,
			Round: 1, State: store.ActionPending, Created: o.cfg.Store.Now(),
		}
		if wrong := checkAction(&a.Action); wrong != nil {
			err = errors.Join(err, wrong)
			continue
		}
		posts = append(posts, a)
	}
	if err != nil {
		o.cfg.Failed()
		o.cfg.Log.Error("notifier failed", zap.String("hook", entry.Name), zap.String("call_id", c.ID), zap.Error(err))
	}
	return posts
}

func queueOf(notifier, queue string) string { return notifier + "/" + queue }

// Committed wakes the notifiers whose posts are among the committed actions.
func (o *Outbox) Committed(actions []store.Action) {
	for i := range actions {
		notifier, queue, _ := strings.Cut(actions[i].Queue, "/")
		if actions[i].Queue == "" {
			continue
		}
		for _, n := range o.cfg.Hooks().Notifier {
			if n.Name == notifier {
				n.Hook.Wake(queue)
			}
		}
	}
}

// Posts returns at most limit posts of a notifier's queue after a position, in the order of their commits. For a copied store it returns
// none while calls are held, because the posts belong to the original store.
func (o *Outbox) Posts(ctx context.Context, notifier, queue string, after int64, limit int) ([]store.Action, error) {
	if o.cfg.Held() {
		return nil, nil
	}
	return o.cfg.Store.Actions(ctx, store.ActionQuery{
		State: store.ActionPending, Phase: tool.AfterCommit, End: queueOf(notifier, queue), After: after, Limit: limit,
	})
}

// SettlePost removes a delivered post. If the post cannot be delivered, failed is the reason, and the post becomes a dead letter. A post
// that does not exist, for example after a purge, is no error.
func (o *Outbox) SettlePost(ctx context.Context, namespace, id string, attempts int, failed string) error {
	done := &store.Amendment{Namespace: namespace, Done: id}
	if failed != "" {
		found, err := o.cfg.Store.Actions(ctx, store.ActionQuery{Namespace: namespace, ID: id})
		if err != nil || len(found) == 0 || found[0].State != store.ActionPending || found[0].Broken {
			return err
		}
		done.Actions = []store.Action{o.deadPost(found[0], attempts, failed)}
	}
	_, err := o.cfg.Store.Amend(ctx, done)
	if errors.Is(err, store.ErrFatal) {
		o.cfg.Fatal(err)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

func (o *Outbox) deadPost(a store.Action, attempts int, why string) store.Action {
	a.State, a.Attempts, a.Error = store.ActionDead, a.Attempts+attempts, o.errorText(why)
	o.cfg.Log.Error("not delivered; it is kept as a dead letter", zap.String("action_id", a.ID), zap.String("call_id", a.CallID),
		zap.String("handler", a.Handler), zap.Int("attempts", a.Attempts), zap.String("error", a.Error))
	return a
}

// KeepQueues turns each post of a notifier into a dead letter if its queue is not in queues. Nothing reads the posts of such a queue any
// more.
func (o *Outbox) KeepQueues(ctx context.Context, notifier string, queues []string) error {
	for after := int64(0); !o.cfg.Held(); {
		page, err := o.cfg.Store.Actions(ctx, store.ActionQuery{State: store.ActionPending, After: after, Limit: postPage})
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			of, queue, _ := strings.Cut(page[i].Queue, "/")
			if page[i].Queue == "" || of != notifier || slices.Contains(queues, queue) {
				continue
			}
			if err := o.SettlePost(ctx, page[i].Namespace, page[i].ID, 0, "no target of this name is configured any more"); err != nil {
				return err
			}
		}
		after = page[len(page)-1].Position
	}
	return nil
}
