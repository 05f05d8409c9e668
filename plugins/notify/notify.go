// Package notify sends webhooks when a call waits for a person and when a call has ended.
//
// A [Target] is an address that the operator wrote. For each event of a call that it wants, a letter, a CloudEvent signed as
// Standard Webhooks says, commits in the transaction of the event, and waits in the [Outbox] until the receiver took it: it
// arrives at least once, over crashes too, always with the same ids, and the letters of one call in order. Letters that are
// taken are gone from the store; what cannot be delivered becomes a dead letter. Each target has a queue and places of its own,
// so that one that hangs delays neither the others nor any call.
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

// Name is what the plugin is called among the hooks.
const Name = "notify"

// A Config is what a notifier works by.
type Config struct {
	Targets []Target
	// Resolve returns the text of a target's Reference, which is that of a secret file; required when a target has one. It is asked
	// before each attempt, and an error is one of the attempt.
	Resolve func(ctx context.Context, target, reference string) (string, error)
	// Dial connects to receivers; nil: over TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// An Outbox keeps letters until they are settled.
type Outbox interface {
	// Letters returns at most limit letters of a target behind a position, in the order of their commits.
	Letters(ctx context.Context, target string, after int64, limit int) ([]Letter, error)
	// Settle removes a letter that was delivered, or keeps it as a dead one when failed says why it never will be.
	Settle(ctx context.Context, l *Letter, attempts int, failed string) error
	// Own returns why nothing may be sent: the letters may be another daemon's.
	Own(ctx context.Context) error
	// Epoch counts the daemons that had the store.
	Epoch() int64
	// Keep makes dead ones of the letters to other targets than these.
	Keep(ctx context.Context, targets []string) error
}

// A Letter is one notification for one target.
type Letter struct {
	Namespace string
	ID        string // unique, and the same however often it is sent
	CallID    string
	Position  int64 // later letters have higher ones
	Created   time.Time
	Body      string
	Broken    bool // the stored letter is damaged and cannot be sent
}

// A Notifier writes letters and delivers them.
type Notifier struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	resolve func(ctx context.Context, target, reference string) (string, error)
	queues  atomic.Pointer[[]*queue]

	swapping sync.Mutex
	swapped  chan struct{} // has room for one
}

// New makes a notifier. An error is the configuration's.
func New(c Config) (*Notifier, error) {
	n := &Notifier{dial: c.Dial, resolve: c.Resolve, swapped: make(chan struct{}, 1)}
	n.queues.Store(&[]*queue{})
	return n, n.Swap(c.Targets)
}

// Swap replaces the targets. One that has not changed is not disturbed; one that has is asked anew, with the letters that wait
// under its name. The letters to a target that is gone become dead ones.
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
		posts = append(posts, hook.Post{Queue: q.target.Name, Payload: letterOf(in, q.target.Content)})
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

// PurgeCalls forgets the letters of calls whose content is erased, as [hook.CallKeeper] says.
func (n *Notifier) PurgeCalls(namespace string, ids []string) {
	gone := map[call.Key]bool{}
	for _, id := range ids {
		gone[call.Key{Namespace: namespace, ID: id}] = true
	}
	for _, q := range *n.queues.Load() {
		q.forget(gone)
	}
}

// Run delivers letters. It blocks until ctx is done, and up to a second longer for the answers to what is on its way; what has
// none by then is sent again by the next daemon.
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
		end(queues) // before its successor, which has the same letters, begins
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
			log.Warn("letters to targets that are gone still wait", zap.Error(err))
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

// Stats is what became of the letters to a target.
type Stats struct {
	Target    string
	Delivered int64 // letters that the receiver took
	Failed    int64 // attempts that failed
	Dead      int64 // letters that were given up
	Waiting   int   // letters that are read and not settled; more may be stored
	Gone      bool  // the receiver said that it wants nothing any more
}

// Stats returns the numbers since the target was made.
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

var errGone = errors.New("410 Gone: the receiver wants nothing any more")
