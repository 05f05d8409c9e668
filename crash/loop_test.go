package crash_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/toold-dev/toold/crash/ledger"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
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
	stopping  atomic.Bool // an orderly end was asked for

	decisionNumber                                           atomic.Int64
	events, decisions, replays, cancels, watches, inboxes    atomic.Int64
	lostTails, forgotten, unready, atPoints, ran, unverified atomic.Int64
	points                                                   map[string]int
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

// new makes the next call; nil when it cannot.
func (l *loop) new(rng *rand.Rand, life int) (*item, error) {
	k := pick(rng, l.kinds)
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.most > 0 && l.perKind[k.name] >= k.most {
		k = l.kinds[0]
	}
	l.perKind[k.name]++
	it := newItem(l.led, k, fmt.Sprintf("call-%s-%05d-%s", l.tag, len(l.items), k.name), life)
	if err := l.prepare(it); err != nil {
		return nil, err
	}
	l.items, l.byID[it.ID] = append(l.items, it), it
	return it, nil
}

// A plan says how a life ends.
type plan struct {
	point string // name:n; empty is a random moment
	early bool   // the moment is before or while the daemon takes up what it finds
	after time.Duration
}

func (p plan) String() string {
	switch {
	case p.point != "":
		return "at " + p.point
	case p.early:
		return fmt.Sprintf("%v after its start", p.after)
	}
	return fmt.Sprintf("%v into the work", p.after)
}

// failPoints are all that the engine and the journal have: around each commit, before the tool starts, after it ended,
// around the commit of its result, after the commit of a cancel.
func failPoints() []string {
	return []string{
		"before-commit", "after-commit", "before-tool", "after-tool", "before-result", "after-result", "after-cancel",
		"begin", "write", "commit", "committed",
	}
}

// draw decides how a life ends: half of them at a named point, a sixth while the daemon starts.
func draw(rng *rand.Rand) plan {
	switch n := rng.IntN(12); {
	case n < 6:
		names := failPoints()
		name := names[rng.IntN(len(names))]
		most := 40
		switch name {
		case "after-cancel":
			most = 3
		case "before-tool", "after-tool", "before-result", "after-result":
			most = 20
		}
		return plan{point: name + ":" + strconv.Itoa(1+rng.IntN(most))}
	case n < 8:
		return plan{early: true, after: time.Duration(1+rng.IntN(120)) * time.Millisecond}
	default:
		return plan{after: time.Duration(rng.IntN(400)) * time.Millisecond}
	}
}

// pointPatience is how long a life may work without coming to its named point.
const pointPatience = 1500 * time.Millisecond

// one is one life, from the start of the daemon to its death. It returns false when the daemon never served.
func (l *loop) one(number int, p plan) (d *daemon, err error) {
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

// workers is how many clients there are.
const workers = 6

// work asks for all sorts of things until the daemon is gone or nothing is left to do.
func (l *life) work(rng *rand.Rand) {
	var crew sync.WaitGroup
	var begun atomic.Int64
	for range workers {
		own := rand.New(rand.NewPCG(rng.Uint64(), 2))
		crew.Go(func() {
			for l.ctx.Err() == nil {
				if !l.step(own, &begun) {
					return
				}
			}
		})
	}
	crew.Wait()
}

// What a life begins at most, and how many calls may wait for somebody.
const (
	newInLife   = 40
	mostWaiting = 60
)

// step does one thing. It returns false when the test itself cannot go on.
func (l *life) step(rng *rand.Rand, begun *atomic.Int64) bool {
	items := l.all()
	waiting, going := l.open(items)
	n := rng.IntN(100)
	switch {
	case n < 40 && begun.Load() < newInLife && len(waiting) < mostWaiting:
		begun.Add(1)
		it, err := l.new(rng, l.number)
		if err != nil {
			l.led.Break("life", "new call: %v", err)
			return false
		}
		l.start(it, rng)
	case n < 62 && len(waiting) > 0:
		l.decide(waiting[rng.IntN(len(waiting))], rng)
	case n < 68 && len(items) > 0:
		l.replay(recent(items, rng), rng)
	case n < 74 && len(items) > 0:
		l.contest(recent(items, rng), rng)
	case n < 80 && len(going) > 0:
		it := going[rng.IntN(len(going))]
		l.unexpected(it, "cancel", l.cancel(it, time.Duration(rng.IntN(3))*time.Second))
	case n < 92 && len(going)+len(items) > 0:
		it := recent(items, rng)
		if len(going) > 0 && rng.IntN(2) == 0 {
			it = going[rng.IntN(len(going))]
		}
		if it.Told() {
			l.reattach(it, rng)
		}
	case n < 95:
		l.list()
	default:
		time.Sleep(time.Millisecond) // nothing comes to mind
	}
	return true
}

// recent draws a call, mostly a new one.
func recent(items []*item, rng *rand.Rand) *item {
	back := min(len(items), 60)
	return items[len(items)-1-rng.IntN(back)]
}

// open returns the calls that wait for somebody, and all that have not ended.
func (l *life) open(items []*item) (waiting, going []*item) {
	for _, it := range items {
		if it.fixed.Load() || !it.Told() || it.Ended() != nil || !it.Current(l.epoch) {
			continue
		}
		if open, _ := it.Waiting(); open != nil {
			waiting = append(waiting, it)
		}
		going = append(going, it)
	}
	return waiting, going
}

func metadataOf(ctx context.Context, who string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token(who))
}

// finish ends a last daemon in order, and holds the next one to everything that was ever told.
func (l *loop) finish(number int) error {
	rng := rand.New(rand.NewPCG(l.seed, uint64(number)))
	for i, all := range []bool{false, true, true} {
		d, err := l.home.start("")
		if err != nil {
			return err
		}
		defer d.kill()
		served, err := d.awaitReady()
		if err != nil {
			return err
		}
		if !served {
			return fmt.Errorf("the daemon ended before it served: %v\n%s", d.cmd.ProcessState, d.log)
		}
		life, err := l.begin(d, number+i)
		if err != nil {
			return err
		}
		defer life.end()
		err = life.verify(rng, all)
		if err == nil && i == 0 {
			working, rest := context.WithCancel(life.ctx)
			time.AfterFunc(200*time.Millisecond, rest)
			busy := *life
			busy.ctx = working
			busy.work(rng)
		}
		life.readFeed(false)
		l.stopping.Store(true)
		if err == nil {
			err = d.stop()
		}
		l.stopping.Store(false)
		life.end()
		if err != nil || len(l.led.Broken()) > 0 {
			return err
		}
		for _, it := range l.all() {
			it.Stopped()
		}
	}
	return l.complete()
}

// complete is the last look at everything, without a daemon.
func (l *loop) complete() error {
	for _, it := range l.all() {
		end := it.Settled()
		waiting, _ := it.Waiting()
		switch {
		case !it.Told():
		case end == nil && waiting == nil:
			it.Break("life", "it neither ended nor waits")
		case l.feedBook.Last(it.ID) != it.Last():
			it.Break("P4", "the feed told %d of its %d events", l.feedBook.Last(it.ID), it.Last())
		}
		if end != nil && end.Executed == tooldv1.Executed_EXECUTED_FINISHED {
			l.ran.Add(1)
		}
	}
	return nil
}

// kills reads how often the daemon is to die.
func kills(t *testing.T) int {
	t.Helper()
	text := os.Getenv("TOOLD_CRASH_KILLS")
	if text == "" {
		return 40
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("TOOLD_CRASH_KILLS=%q: want a number of 1 or more", text)
	}
	return n
}

func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("TOOLD_CRASH_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano()) & 0xffffffffff
	}
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		t.Fatalf("TOOLD_CRASH_SEED=%q: want a number", text)
	}
	return n
}

// TestCrashLoop is T83, T84, T92, T107 and T110 at once, and P1 to P5: whatever the moment of the kill, the next daemon
// knows everything that was told.
func TestCrashLoop(t *testing.T) {
	want, seed := kills(t), seed(t)
	l := newLoop(t, seed)
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
		t.Fatalf("life %d, to end %v; %d violations, %v\nagain: TOOLD_CRASH_SEED=%d TOOLD_CRASH_KILLS=%d go test -run TestCrashLoop ./crash", number, last, len(l.led.Broken()), err, seed, want)
	}
	for n := 0; n < want; n++ {
		number++
		last = draw(rand.New(rand.NewPCG(seed, uint64(number)<<32)))
		var err error
		d, err = l.one(number, last)
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
	if err := l.finish(number + 1); err != nil || len(l.led.Broken()) > 0 {
		fail(err)
	}
	t.Logf("ran: crash loop: %d kills (%d at named points, %d before it served), %d calls, %d decisions, %d replayed, %d cancels, %d events, %d reattached, %d inboxes, %d lost tails, %d read-only calls forgotten, %d seen to run, %d processes told as unverified; seed %d, %.1f s",
		want, l.atPoints.Load(), l.unready.Load(), len(l.items), l.decisions.Load(), l.replays.Load(), l.cancels.Load(), l.events.Load(),
		l.watches.Load(), l.inboxes.Load(), l.lostTails.Load(), l.forgotten.Load(), l.ran.Load(), l.unverified.Load(), seed, time.Since(began).Seconds())
	t.Logf("named points: %v", l.points)
}

// count notes how a life ended in truth.
func (l *loop) count(p plan, atPoint bool) {
	if !atPoint {
		return
	}
	l.atPoints.Add(1)
	name, _, _ := strings.Cut(p.point, ":")
	l.points[name]++
}
