package wire

import (
	"context"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/plugins/notify"
)

// Outbox returns an outbox that stores letters as posts of the engine.
func Outbox(e *lifecycle.Engine, now func() call.Stamp) notify.Outbox { return outbox{e, now} }

type outbox struct {
	e   *lifecycle.Engine
	now func() call.Stamp // the store's clock
}

// Letters implements [notify.Outbox].
func (o outbox) Letters(ctx context.Context, target string, after int64, limit int) (letters []notify.Letter, err error) {
	posts, err := o.e.Outbox().Posts(ctx, notify.Name, target, after, limit)
	for i := range posts {
		p := &posts[i]
		letters = append(letters, notify.Letter{
			Namespace: p.Namespace, ID: p.ID, CallID: p.CallID, Position: p.Position, Age: o.now().Sub(p.Created), Body: p.Payload, Broken: p.Broken,
		})
	}
	return letters, err
}

// Settle implements [notify.Outbox].
func (o outbox) Settle(ctx context.Context, l *notify.Letter, attempts int, failed string) error {
	return o.e.Outbox().SettlePost(ctx, l.Namespace, l.ID, attempts, failed)
}

// Own implements [notify.Outbox].
func (o outbox) Own(ctx context.Context) error { return o.e.Own(ctx) }

// Epoch implements [notify.Outbox].
func (o outbox) Epoch() int64 { return o.e.Epoch() }

// Keep implements [notify.Outbox].
func (o outbox) Keep(ctx context.Context, targets []string) error {
	return o.e.Outbox().KeepQueues(ctx, notify.Name, targets)
}
