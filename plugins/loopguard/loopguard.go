// Package loopguard stops runs that repeat calls without end.
//
// It is a [hook.Admit]. Within a run it counts three things: calls of the same tool with the same arguments, all calls, and consecutive
// failures of a tool. To see the failures it is also a [hook.Observer]. The message of a refused call tells the model what it can do
// instead.
//
// Calls without a run are counted by their thread. Calls with neither are not counted. The guard deletes the counts of a run at EndRun, or
// after a time without calls. When there are too many runs, it deletes those of the run whose last call is the oldest.
package loopguard

import (
	"container/list"
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/setting"
	"github.com/toold-dev/toold/tool"
)

// Reasons in the errors of refused calls.
const (
	ReasonRepeated = "REPEATED_CALL"
	ReasonCalls    = "TOO_MANY_CALLS"
	ReasonFailures = "REPEATED_FAILURE"
)

// maxFailing is the maximum number of tools of a run whose failures are counted. Failures of other tools are not counted.
const maxFailing = 64

// A Config configures a guard.
type Config struct {
	Repeats  int           `yaml:"repeats" default:"0" min:"0" max:"1000" help:"largest number of calls with the same tool and arguments among the newest calls of a run; toold refuses the next such call; 0 means no limit" see:"plugins/loopguard.md"`
	Window   int           `yaml:"window" default:"20" min:"1" max:"1000" help:"number of the newest calls of a run in which loopguard.repeats counts equal calls"`
	Except   []string      `yaml:"except" format:"glob" help:"globs on the ids of tools whose calls may repeat, such as those that poll"`
	Calls    int           `yaml:"calls" default:"0" min:"0" max:"1000000000" help:"largest number of calls of a run; 0 means no limit"`
	Failures int           `yaml:"failures" default:"0" min:"0" max:"1000" help:"number of consecutive failures of one tool in a run after which toold refuses one call of the tool; 0 means no limit"`
	Idle     time.Duration `yaml:"idle" default:"1h" min:"1s" max:"30d" help:"time without calls after which the counts of a run are dropped"`
	Runs     int           `yaml:"runs" default:"10000" min:"1" max:"1000000" help:"largest number of runs whose counts are kept in memory"`
}

// A Guard is a [hook.Admit] and a [hook.Observer].
type Guard struct {
	seed maphash.Seed

	mu    sync.Mutex
	cfg   Config
	runs  map[key]*list.Element
	order list.List // values are *run, the most recently called run last
}

// key identifies a run, or a thread for calls without a run.
type key struct {
	namespace, id string
	thread        bool
}

type run struct {
	key    key
	last   time.Time
	calls  int
	recent []uint64       // hashes of the last calls, newest last
	failed map[string]int // consecutive failures, by tool
}

// New returns a guard.
func New(cfg Config) (*Guard, error) {
	g := &Guard{seed: maphash.MakeSeed(), runs: map[key]*list.Element{}}
	if err := g.Swap(cfg); err != nil {
		return nil, err
	}
	return g, nil
}

// Swap replaces the limits and keeps the counts. After an error nothing has changed.
func (g *Guard) Swap(cfg Config) error {
	setting.Fill(&cfg)
	if err := setting.Check(cfg).Err(); err != nil {
		return err
	}
	if cfg.Repeats > cfg.Window {
		return fmt.Errorf("repeats: %[2]d identical calls do not fit in a window of %[1]d calls", cfg.Window, cfg.Repeats)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cfg = cfg
	return nil
}

// Admit implements [hook.Admit].
func (g *Guard) Admit(_ context.Context, in *hook.Input) (release func(), err error) {
	k, ok := keyOf(in)
	if !ok || in.Attempt > 1 { // A further attempt of the same call, after a question or a crash, is not counted again.
		return nil, nil
	}
	h := g.hash(in)
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.runLocked(k)
	id := in.Descriptor.ID
	switch {
	case g.cfg.Calls > 0 && r.calls >= g.cfg.Calls:
		return nil, refuse(ReasonCalls, "Not run: this run has reached its limit of %d calls. Finish with what you have, and report what remains to be done.", g.cfg.Calls)
	case g.cfg.Repeats > 0 && count(r.recent, h) >= g.cfg.Repeats && !g.exceptedLocked(id):
		return nil, refuse(ReasonRepeated, "Not run: %s was called with exactly these arguments %d times in the last %d calls, and another call will not help. "+
			"Use the earlier results, change the arguments, try another tool, or explain what blocks you.", id, count(r.recent, h), len(r.recent))
	case g.cfg.Failures > 0 && r.failed[id] >= g.cfg.Failures:
		failed := r.failed[id]
		delete(r.failed, id)
		return nil, refuse(ReasonFailures, "Not run: %s has failed %d times in a row in this run. Read the errors and check your assumptions before you call it again, "+
			"try another way, or explain what blocks you. The next call will run.", id, failed)
	}
	r.calls++
	if over := len(r.recent) + 1 - g.cfg.Window; over > 0 {
		r.recent = append(r.recent[:0], r.recent[over:]...)
	}
	r.recent = append(r.recent, h)
	return nil, nil
}

func refuse(reason, format string, args ...any) error {
	return &tool.Error{Code: tool.ResourceExhausted, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Filter implements [hook.Filter]. Events pass unchanged.
func (g *Guard) Filter(in *hook.Input) func(call.Event) ([]call.Event, []hook.Record) {
	see := g.Observe(in)
	return func(e call.Event) ([]call.Event, []hook.Record) {
		see(&e)
		return []call.Event{e}, nil
	}
}

// Observe implements [hook.Observer]. It counts a failure when a tool has run and failed. When a tool has run and succeeded, it sets the
// tool's count to 0. It ignores calls that did not run.
func (g *Guard) Observe(in *hook.Input) func(*call.Event) {
	k, ok := keyOf(in)
	id := in.Descriptor.ID
	return func(e *call.Event) {
		if ok && e.Outcome != nil && e.Outcome.Executed != call.NotStarted && e.Outcome.Status != call.Cancelled {
			g.ended(k, id, e.Outcome.Status == call.Failed)
		}
	}
}

func (g *Guard) ended(k key, id string, failed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.runs[k]
	if e == nil || g.cfg.Failures == 0 {
		return
	}
	r := e.Value.(*run)
	switch {
	case !failed:
		delete(r.failed, id)
	case r.failed == nil:
		r.failed = map[string]int{id: 1}
	case r.failed[id] > 0 || len(r.failed) < maxFailing:
		r.failed[id]++
	}
}

// EndRun implements [hook.RunDataOwner].
func (g *Guard) EndRun(namespace, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.runs[key{namespace: namespace, id: id}]; e != nil {
		g.dropLocked(e)
	}
}

// Runs returns the number of runs with counts.
func (g *Guard) Runs() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.runs)
}

func (g *Guard) runLocked(k key) *run {
	now := time.Now()
	if e := g.runs[k]; e != nil && now.Sub(e.Value.(*run).last) < g.cfg.Idle {
		g.order.MoveToBack(e)
		r := e.Value.(*run)
		r.last = now
		return r
	}
	for e := g.order.Front(); e != nil; e = g.order.Front() {
		if len(g.runs) < g.cfg.Runs && now.Sub(e.Value.(*run).last) < g.cfg.Idle {
			break
		}
		g.dropLocked(e)
	}
	r := &run{key: k, last: now}
	g.runs[k] = g.order.PushBack(r)
	return r
}

func (g *Guard) dropLocked(e *list.Element) {
	delete(g.runs, e.Value.(*run).key)
	g.order.Remove(e)
}

func (g *Guard) exceptedLocked(id string) bool {
	return tool.AnyGlob(g.cfg.Except, id)
}

func keyOf(in *hook.Input) (key, bool) {
	if in.Run.ID != "" {
		return key{namespace: in.Namespace, id: in.Run.ID}, true
	}
	return key{namespace: in.Namespace, id: in.Run.Thread, thread: true}, in.Run.Thread != ""
}

// hash returns a hash of the tool and the canonical arguments.
func (g *Guard) hash(in *hook.Input) uint64 {
	var h maphash.Hash
	h.SetSeed(g.seed)
	_, _ = h.WriteString(in.Descriptor.ID)
	_ = h.WriteByte(0) // IDs contain no zero byte
	_, _ = h.WriteString(in.Arguments.Text())
	return h.Sum64()
}

func count(list []uint64, h uint64) (n int) {
	for _, v := range list {
		if v == h {
			n++
		}
	}
	return n
}
