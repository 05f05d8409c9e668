// Package notify sends webhooks when a call waits for a person and when a call has ended.
//
// A [Target] is a receiver that the operator configured. For each event that a target wants, the notifier writes a letter: a CloudEvent
// signed according to Standard Webhooks. The letter commits in the transaction of the event and waits in the [Outbox] until the receiver
// accepts it.
//
//   - A letter arrives at least once, also after crashes, always with the same ID.
//   - Letters of one call arrive in order.
//   - The store removes accepted letters. Undeliverable ones become dead letters.
//
// Each target has a separate queue and separate slots. A target that hangs delays neither other targets nor calls.
package notify

import (
	"context"
	"errors"
	"net"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/setting"
)

// Name is the plugin's name among the hooks.
const Name = "notify"

// A Config configures a notifier.
type Config struct {
	Targets []Target
	// Resolve returns the secret for a target's Reference, in the format of a secret file. It is called each time before a letter is sent.
	// When it returns an error, the letter is not sent and is tried again later. Required when a target has a Reference.
	Resolve func(ctx context.Context, target, reference string) (string, error)
	// Dial connects to receivers. Nil means TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// An Outbox stores letters until they are delivered or dead.
type Outbox interface {
	// Letters returns the letters of a target that come after a position, in commit order, at most limit.
	Letters(ctx context.Context, target string, after int64, limit int) ([]Letter, error)
	// Settle removes a delivered letter. When failed is not empty, Settle makes the letter a dead letter with this reason.
	Settle(ctx context.Context, l *Letter, attempts int, failed string) error
	// Own returns an error when another daemon may own the letters. Then nothing may be sent.
	Own(ctx context.Context) error
	// Epoch returns the durable start counter of the daemon that owns the store.
	Epoch() int64
	// Keep turns each letter whose target is not in targets into a dead letter.
	Keep(ctx context.Context, targets []string) error
}

// A Letter is one notification for one target.
type Letter struct {
	Namespace string
	ID        string // unique ID, the same each time the letter is sent
	CallID    string
	Position  int64         // higher for later letters
	Age       time.Duration // age of the letter at the time when it was read
	Body      string
	Broken    bool // the stored letter is damaged and cannot be sent
}

// A Notifier writes letters and delivers them.
type Notifier struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	resolve func(ctx context.Context, target, reference string) (string, error)
	console string
	queues  atomic.Pointer[[]*queue]

	swapping sync.Mutex
	swapped  chan struct{} // has capacity 1
}

// New returns a notifier, or an error when the configuration is invalid.
func New(c Config) (*Notifier, error) {
	n := &Notifier{dial: c.Dial, resolve: c.Resolve, swapped: make(chan struct{}, 1)}
	n.queues.Store(&[]*queue{})
	return n, n.Swap(c.Targets)
}

// Link adds links to the console to the letters. base is the console's URL without a path. Call it before the first [Notifier.Notify].
func (n *Notifier) Link(base string) { n.console = base }

// Swap replaces the targets. Unchanged targets continue. When a target has changed, the waiting letters with its name are sent with the new
// settings. Letters to removed targets become dead letters.
func (n *Notifier) Swap(targets []Target) error {
	filled := Settings{Targets: targets}
	setting.Fill(&filled)
	targets = filled.Targets
	if err := setting.Check(&filled).Err(); err != nil {
		return err
	}
	n.swapping.Lock()
	defer n.swapping.Unlock()
	var next []*queue
	for i := range targets {
		t := targets[i]
		before := slices.IndexFunc(*n.queues.Load(), func(q *queue) bool { return reflect.DeepEqual(q.target, t) && !q.gone.Load() })
		if before >= 0 {
			next = append(next, (*n.queues.Load())[before])
			continue
		}
		q, err := newQueue(t, n)
		if err != nil {
			return err
		}
		next = append(next, q)
	}
	n.queues.Store(&next)
	signal(n.swapped)
	return nil
}

// Notify implements [hook.Notifier].
func (n *Notifier) Notify(in hook.Notice) (posts []hook.Post) {
	for _, q := range *n.queues.Load() {
		if q.gone.Load() || !q.target.wants(in.Call, in.Event) {
			continue
		}
		posts = append(posts, hook.Post{Queue: q.target.Name, Payload: letterOf(in, q.target.Content, n.console)})
	}
	return posts
}

// Wake implements [hook.Notifier].
func (n *Notifier) Wake(target string) {
	for _, q := range *n.queues.Load() {
		if q.target.Name == target {
			q.wake()
		}
	}
}

// PurgeCalls implements [hook.CallDataOwner]. It removes the letters of purged calls from memory.
func (n *Notifier) PurgeCalls(namespace string, ids []string) {
	purged := map[call.Key]bool{}
	for _, id := range ids {
		purged[call.Key{Namespace: namespace, ID: id}] = true
	}
	for _, q := range *n.queues.Load() {
		q.forget(purged)
	}
}

// Run delivers letters until ctx is done. Then it waits up to a second for answers to the letters that it has sent. The next daemon sends
// the letters without an answer again.
func (n *Notifier) Run(ctx context.Context, outbox Outbox, log *zap.Logger) error {
	type running struct {
		stop  context.CancelFunc
		ended chan struct{}
	}
	runs := map[*queue]running{}
	end := func(keep []*queue) {
		for q, r := range runs {
			if !slices.Contains(keep, q) {
				r.stop()
				<-r.ended
				delete(runs, q)
			}
		}
	}
	defer end(nil)
	for {
		queues := *n.queues.Load()
		end(queues) // The old queue must end first, because the new queue begins with the same letters.
		for _, q := range queues {
			if _, runs := runs[q]; runs {
				continue
			}
			own, stop := context.WithCancel(ctx)
			r := running{stop, make(chan struct{})}
			runs[q] = r
			go func() {
				defer close(r.ended)
				q.run(own, outbox, log)
			}()
		}
		err := outbox.Keep(ctx, n.names())
		if err != nil && ctx.Err() == nil {
			log.Warn("letters to removed targets not made dead letters", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-n.swapped:
		}
	}
}

func (n *Notifier) names() (names []string) {
	for _, q := range *n.queues.Load() {
		names = append(names, q.target.Name)
	}
	return names
}

// Stats counts the letters of a target, and the attempts to send them.
type Stats struct {
	Target    string
	Delivered int64 // accepted letters
	Failed    int64 // failed attempts to send a letter
	Dead      int64 // dead letters
	Waiting   int   // letters in memory that are not delivered or dead yet; more may be stored
	Gone      bool  // the receiver answered 410 Gone
}

// Stats returns the counts of each target since it was created.
func (n *Notifier) Stats() (all []Stats) {
	for _, q := range *n.queues.Load() {
		all = append(all, q.stats())
	}
	return all
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

var errGone = errors.New("410 Gone: the receiver accepts no more notifications")
