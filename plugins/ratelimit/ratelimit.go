// Package ratelimit refuses calls when there are too many in a period.
//
// It is a [hook.Admit], so the engine asks it once for each attempt, after the gates, and DescribeCall does not ask it. Each [Limit] has a
// token bucket for every combination of the properties by which it counts. When several limits apply to a call, the call takes a token from
// each of them. A refused call takes no token.
package ratelimit

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/setting"
	"github.com/toold-dev/toold/tool"
)

// Reason is the reason in the error of a refused call.
const Reason = "RATE_LIMITED"

// A Limiter is a [hook.Admit].
type Limiter struct {
	most int

	mu     sync.Mutex
	limits []*limit
}

// forever is longer than any daemon runs, and fits into a time.Duration.
const forever = 100 * 365 * 24 * time.Hour

// limit is a Limit with its buckets. Limiter.mu guards it.
type limit struct {
	Limit
	rate    rate.Limit
	refill  time.Duration // time from empty to full
	buckets map[key]*list.Element
	used    list.List // values are *bucket, the most recently used bucket last
}

// key identifies a bucket. Properties that the limit does not count by are empty.
type key struct{ namespace, principal, tool, run string }

type bucket struct {
	key    key
	tokens *rate.Limiter
	last   time.Time
}

// New returns a limiter.
func New(cfg Config) (*Limiter, error) {
	l := &Limiter{}
	if err := l.Swap(cfg); err != nil {
		return nil, err
	}
	return l, nil
}

// Swap replaces the limits. A limit with the same name and properties keeps the state of its buckets. After an error nothing has changed.
func (l *Limiter) Swap(cfg Config) error {
	if err := setting.Check(&cfg).Err(); err != nil {
		return err
	}
	next := make([]*limit, len(cfg.Limits))
	for i, c := range cfg.Limits {
		c.Burst = max(c.Burst, 0)
		if c.Burst == 0 {
			c.Burst = c.Calls
		}
		per := rate.Limit(float64(c.Calls) / c.Per.Seconds())
		next[i] = &limit{
			Limit: c, rate: per, buckets: map[key]*list.Element{},
			refill: time.Duration(min(float64(c.Burst)/float64(per), forever.Seconds()) * float64(time.Second)),
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, n := range next {
		for _, old := range l.limits {
			if old.Name == n.Name && slices.Equal(old.By, n.By) {
				n.adopt(old, now)
			}
		}
	}
	l.limits, l.most = next, cfg.Buckets
	if l.most == 0 {
		l.most = DefaultBuckets
	}
	return nil
}

func (m *limit) adopt(old *limit, now time.Time) {
	for e := old.used.Front(); e != nil; e = e.Next() {
		b := e.Value.(*bucket)
		b.tokens.SetLimitAt(now, m.rate)
		b.tokens.SetBurstAt(now, m.Burst)
		m.buckets[b.key] = m.used.PushBack(b)
	}
}

// Admit implements [hook.Admit].
func (l *Limiter) Admit(_ context.Context, in *hook.Input) (release func(), err error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	var room [4]*bucket
	taken := room[:0]
	var wait time.Duration
	var short *limit
	for _, m := range l.limits {
		if !m.holds(in) {
			continue
		}
		b := m.bucket(in, now, l.most)
		if w := b.wait(now); w > wait {
			wait, short = w, m
		}
		taken = append(taken, b)
	}
	if short != nil {
		return nil, short.refusal(wait)
	}
	for _, b := range taken {
		b.tokens.AllowN(now, 1)
	}
	return nil, nil
}

// Buckets returns the number of stored buckets.
func (l *Limiter) Buckets() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, m := range l.limits {
		n += len(m.buckets)
	}
	return n
}

func (m *limit) holds(in *hook.Input) bool {
	return (len(m.Tools) == 0 || tool.AnyGlob(m.Tools, in.Descriptor.ID)) &&
		(len(m.Namespaces) == 0 || slices.Contains(m.Namespaces, in.Namespace)) &&
		(len(m.Principals) == 0 || slices.Contains(m.Principals, in.Caller.Subject))
}

// bucket returns the bucket of a call. When it must create one, it first removes buckets that are full, because a full bucket has the same
// effect as none. When there are still too many, it removes the one whose last use is the oldest.
func (m *limit) bucket(in *hook.Input, now time.Time, most int) *bucket {
	k := m.key(in)
	if e := m.buckets[k]; e != nil {
		b := e.Value.(*bucket)
		b.last = now
		m.used.MoveToBack(e)
		return b
	}
	for e := m.used.Front(); e != nil; e = m.used.Front() {
		b := e.Value.(*bucket)
		if len(m.buckets) < most && now.Sub(b.last) < m.refill {
			break
		}
		delete(m.buckets, b.key)
		m.used.Remove(e)
	}
	b := &bucket{key: k, tokens: rate.NewLimiter(m.rate, m.Burst), last: now}
	m.buckets[k] = m.used.PushBack(b)
	return b
}

func (m *limit) key(in *hook.Input) key {
	var k key
	for _, by := range m.By {
		switch by {
		case ByNamespace:
			k.namespace = in.Namespace
		case ByPrincipal: // a principal belongs to its namespace
			k.namespace, k.principal = in.Namespace, in.Caller.Subject
		case ByTool:
			k.tool = in.Descriptor.ID
		case ByRun:
			k.namespace, k.run = in.Namespace, in.Run.ID
		}
	}
	return k
}

// wait returns the time until the next token, or 0 when there is one.
func (b *bucket) wait(now time.Time) time.Duration {
	missing := 1 - b.tokens.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	wait := time.Duration(missing / float64(b.tokens.Limit()) * float64(time.Second))
	return wait.Truncate(time.Millisecond) + time.Millisecond // Rounded up to a millisecond, so that a call after this wait finds a whole token.
}

func (m *limit) refusal(wait time.Duration) error {
	return &tool.Error{
		Code: tool.ResourceExhausted, Reason: Reason, Retryable: true, RetryAfter: wait,
		Message: fmt.Sprintf("Not run: the limit %q of %d calls in %v is reached. Try again in %v, or continue without this call.", m.Name, m.Calls, m.Per, wait.Round(10*time.Millisecond)),
	}
}
