package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/test/crash/ledger"
)

// A loop is a test of many lives on one store.
type loop struct {
	*home
	seed  uint64
	tag   string // part of all ids
	led   *ledger.Ledger
	kinds []*kind

	mu       sync.Mutex
	items    []*item
	byID     map[string]*item
	perKind  map[string]int
	feedBook *ledger.Feed

	storeID   string
	lastEpoch int64
	lastPID   int
	stopping  atomic.Bool // a SIGTERM was sent
	calm      func()      // stops the faults of the store; nil means that there are none

	decisionNumber                                               atomic.Int64
	events, decisions, votes, replays, cancels, watches, inboxes atomic.Int64
	batches                                                      atomic.Int64
	lostTails, forgotten, unready, atPoints, ran, unverified     atomic.Int64
	points                                                       map[string]int
}

func newLoop(t *testing.T, seed uint64) *loop {
	l := &loop{
		home: newHome(t), seed: seed, tag: fmt.Sprintf("%05x%05x", seed&0xfffff, os.Getpid()&0xfffff), led: ledger.New(),
		kinds: kinds(), byID: map[string]*item{}, perKind: map[string]int{}, points: map[string]int{},
	}
	l.feedBook = l.led.Feed(func(id string) *ledger.Call {
		if it := l.item(id); it != nil {
			return it.Call
		}
		return nil
	})
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		var text strings.Builder
		for i := range 400 {
			fmt.Fprintf(&text, "line %d of %s\n", i, name)
		}
		must(t, os.WriteFile(l.workspace+"/"+texts+"/"+name, []byte(text.String()), 0o600))
	}
	return l
}

func (l *loop) item(id string) *item {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[id]
}

func (l *loop) all() []*item {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*item(nil), l.items...)
}

// new makes a call of a random kind.
func (l *loop) new(rng *rand.Rand, life int) (*item, error) {
	k := pick(rng, l.kinds)
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.most > 0 && l.perKind[k.name] >= k.most {
		k = l.kinds[0]
	}
	return l.newLocked(k, life)
}

// newLocked makes a call of a kind.
func (l *loop) newLocked(k *kind, life int) (*item, error) {
	l.perKind[k.name]++
	it := newItem(l.led, k, fmt.Sprintf("call-%s-%05d-%s", l.tag, len(l.items), k.name), life)
	if err := l.prepare(it); err != nil {
		return nil, err
	}
	l.items, l.byID[it.ID] = append(l.items, it), it
	return it, nil
}

// pointPatience is how long a life may work without reaching its named point.
const pointPatience = 1500 * time.Millisecond

// play runs one life, from the start of the daemon to its death.
func (l *loop) play(number int, p plan) (d *daemon, err error) {
	rng := rand.New(rand.NewPCG(l.seed, uint64(number)))
	if d, err = l.home.start(p.point); err != nil {
		return nil, err
	}
	defer d.kill()
	if p.early {
		early := time.AfterFunc(p.after, d.kill)
		defer early.Stop()
	}
	served, err := d.awaitReady()
	if err != nil || !served {
		l.unready.Add(1)
		return d, err
	}
	life, err := l.begin(d, number)
	if err != nil {
		return d, err
	}
	var crew sync.WaitGroup
	defer crew.Wait()
	defer life.end()
	crew.Go(func() { life.readFeed(true) })
	if err := life.verify(rng, false); err != nil {
		return d, err
	}
	switch {
	case p.point != "":
		defer time.AfterFunc(pointPatience, d.kill).Stop()
	case p.early:
		d.kill()
	default:
		defer time.AfterFunc(p.after, d.kill).Stop()
	}
	life.work(rng)
	<-d.ended
	return d, nil
}

// finish runs lives that end with SIGTERM, and checks everything that clients ever saw.
func (l *loop) finish(number int) error {
	for i := range 3 {
		if err := l.orderly(number+i, i == 0); err != nil || len(l.led.Broken()) > 0 {
			return err
		}
		for _, it := range l.all() {
			it.Stopped()
		}
	}
	l.complete()
	return nil
}

// orderly runs one life that ends with SIGTERM. A busy life receives SIGTERM while clients make requests.
func (l *loop) orderly(number int, busy bool) error {
	rng := rand.New(rand.NewPCG(l.seed, uint64(number)))
	d, err := l.home.start("")
	if err != nil {
		return err
	}
	defer d.kill()
	if served, err := d.awaitReady(); err != nil || !served {
		return errors.Join(err, fmt.Errorf("the daemon ended before it served: %v\n%s", d.cmd.ProcessState, d.log))
	}
	life, err := l.begin(d, number)
	if err != nil {
		return err
	}
	defer life.end()
	if busy { // The daemon before a busy life was killed, so some calls may be unfinished.
		if err := life.quiet(); err != nil {
			return err
		}
	}
	if err := life.verify(rng, !busy); err != nil {
		return err
	}
	if busy {
		some := *life
		var cancel context.CancelFunc
		some.ctx, cancel = context.WithCancel(life.ctx)
		time.AfterFunc(200*time.Millisecond, cancel)
		some.work(rng)
	}
	life.readFeed(false)
	l.stopping.Store(true)
	defer l.stopping.Store(false)
	return d.stop()
}

// complete does the last checks, without a daemon.
func (l *loop) complete() {
	for _, it := range l.all() {
		end := it.Settled()
		waiting, _ := it.Waiting()
		switch {
		case !it.Published():
		case end == nil && waiting == nil:
			it.Break("life", "it neither ended nor waits")
		case l.feedBook.Last(it.ID) != it.Last():
			it.Break("P4", "the feed told %d of its %d events", l.feedBook.Last(it.ID), it.Last())
		}
		if end != nil && end.Executed == tooldv1.Executed_EXECUTED_FINISHED {
			l.ran.Add(1)
		}
	}
}

// TestCrashLoop (T83, T84, T92, T107, T110, P1 to P5) kills the daemon at any moment. The next daemon must know everything that clients
// saw.
func TestCrashLoop(t *testing.T) {
	newLoop(t, seed(t)).killed(t, kills(t))
}

// killed runs the given number of lives, and checks everything in the last one.
func (l *loop) killed(t *testing.T, want int) {
	t.Helper()
	seed := l.seed
	began := time.Now()
	var d *daemon
	var last plan
	number := 0
	fail := func(err error) {
		t.Helper()
		for i, v := range l.led.Broken() {
			if i < 5 {
				t.Error(v)
			}
		}
		if d != nil {
			t.Log(d.log)
		}
		t.Fatalf("life %d, to end %v; %d violations, %v\nagain: TOOLD_CRASH_SEED=%d TOOLD_CRASH_KILLS=%d go test -run %s ./test/crash",
			number, last, len(l.led.Broken()), err, seed, kills(t), t.Name())
	}
	for n := 0; n < want; n++ {
		number++
		last = draw(rand.New(rand.NewPCG(seed, uint64(number)<<32)))
		var err error
		d, err = l.play(number, last)
		var atPoint bool
		if err == nil {
			atPoint, err = d.died()
		}
		if err != nil || len(l.led.Broken()) > 0 {
			fail(err)
		}
		l.count(last, atPoint)
	}
	last = plan{}
	if l.calm != nil { // Stop the faults of the store first, because a daemon without its store cannot stop in an orderly way.
		l.calm()
	}
	if err := l.finish(number + 1); err != nil || len(l.led.Broken()) > 0 {
		fail(err)
	}
	l.report(t, want, time.Since(began))
}

func (l *loop) report(t *testing.T, kills int, took time.Duration) {
	t.Helper()
	t.Logf("ran: crash loop: %d kills (%d at named points, %d before it served), %d calls, %d batches, %d decisions and %d votes, %d sent again, %d cancels, "+
		"%d events, %d reattached, %d inboxes, %d lost tails, %d read-only calls forgotten, %d seen to run; seed %d, %.1f s",
		kills, l.atPoints.Load(), l.unready.Load(), len(l.items), l.batches.Load(), l.decisions.Load(), l.votes.Load(), l.replays.Load(), l.cancels.Load(),
		l.events.Load(), l.watches.Load(), l.inboxes.Load(), l.lostTails.Load(), l.forgotten.Load(), l.ran.Load(), l.seed, took.Seconds())
	t.Logf("named points: %v; processes that a daemon reported as unverified: %d", l.points, l.unverified.Load())
}

// count records how a life actually ended.
func (l *loop) count(p plan, atPoint bool) {
	if !atPoint {
		return
	}
	l.atPoints.Add(1)
	name, _, _ := strings.Cut(p.point, ":")
	l.points[name]++
}
