package crash_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const workers = 6

// work makes random requests until the daemon is gone or nothing is left to do.
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

// The limits on how many calls a life starts and how many calls may be suspended.
const (
	newInLife   = 40
	mostWaiting = 60
)

// step makes one request. It returns false when the test itself cannot continue.
func (l *life) step(rng *rand.Rand, begun *atomic.Int64) bool {
	items := l.all()
	waiting, going := l.open(items)
	n := rng.IntN(100)
	switch {
	case n < 40 && begun.Load() < newInLife && len(waiting) < mostWaiting:
		begun.Add(1)
		if n < 4 {
			return l.newTurn(rng)
		}
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
		if it.Published() {
			l.reattach(it, rng)
		}
	case n < 95:
		l.list()
	default:
		time.Sleep(time.Millisecond) // nothing to do now
	}
	return true
}

// recent returns a random call, usually a new one.
func recent(items []*item, rng *rand.Rand) *item {
	back := min(len(items), 60)
	return items[len(items)-1-rng.IntN(back)]
}

// open returns two lists: the suspended calls, and all calls that have not ended.
func (l *life) open(items []*item) (waiting, going []*item) {
	for _, it := range items {
		if it.fixed.Load() || !it.Published() || it.Ended() != nil || !it.Current(l.epoch) {
			continue
		}
		if open, _ := it.Waiting(); open != nil {
			waiting = append(waiting, it)
		}
		going = append(going, it)
	}
	return waiting, going
}
