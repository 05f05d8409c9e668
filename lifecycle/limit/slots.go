package limit

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// Slots bounds how many calls run at once: in total, per namespace, per principal and per tool. Other calls wait. A free slot goes to the
// waiting namespace whose last new slot is the longest ago. Within the namespace, the same rule selects the principal, and the oldest call
// of the principal gets the slot. A client that floods the queue therefore delays only its own calls. A call that waits for another limit
// does not block the calls behind it.
type Slots struct {
	total, queue         int // maximum number of running calls and of waiting calls
	namespace, principal int // maximum number of running calls of each namespace and of each principal; 0 means no limit
	namespaceQueue       int // maximum number of waiting calls of each namespace and of each principal
	principalQueue       int
	tools                []call.ToolLimit

	mu        sync.Mutex
	taken     int
	waiting   int
	running   map[scope]int // running calls of each limited scope
	elsewhere map[scope]int // calls that wait for something other than a slot, such as their turn in a thread; the zero scope has the total
	lent      map[scope]int // calls that lent their slot to nested calls; the zero scope has the total
	queues    map[string]*namespaceQueue
	order     list.List // list of *namespaceQueue; the first entry gets the next slot
}

// A Demand names the limits that a call counts against.
type Demand struct {
	namespace, principal string
	tool                 string // source and id of the tool if the tool has a limit, else empty
	toolMax              int
}

// A scope identifies what a limit applies to. Fields that do not matter for the limit are empty.
type scope struct{ namespace, principal, tool string }

// A namespaceQueue holds the waiting calls of a namespace.
type namespaceQueue struct {
	namespace  string
	waiting    int
	principals map[string]int // number of waiting calls of each principal
	queues     map[scope]*queue
	order      list.List // list of *queue
	at         *list.Element
}

// A queue holds the waiting calls that count against the same limits.
type queue struct {
	key     scope
	waiting list.List // list of *waiter
	at      *list.Element
}

type waiter struct {
	Demand
	ready   chan struct{} // closed when the waiter has a slot
	granted bool
	at      *list.Element
	in      *queue
}

// newSlots returns Slots for total running calls and queue waiting calls.
func newSlots(total, queue int) *Slots {
	return &Slots{total: total, queue: queue, namespaceQueue: queue, principalQueue: queue}
}

// LimitsTools reports whether any tool has a limit. Only then does [Slots.Demand] need the descriptor.
func (s *Slots) LimitsTools() bool { return len(s.tools) > 0 }

// Demand returns the limits that a principal's call of a tool counts against.
func (s *Slots) Demand(p *tool.Principal, d *tool.Descriptor) Demand {
	w := Demand{namespace: p.Namespace, principal: p.Subject}
	for _, t := range s.tools {
		if tool.Glob(t.Tools, d.ID) {
			w.tool, w.toolMax = d.Source+"\x00"+d.ID, t.Calls // The source is part of the key, because workers of different namespaces may have tools with the same id.
			break
		}
	}
	return w
}

// Count returns how many calls run and how many wait.
func (s *Slots) Count() (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken, s.waiting
}

// Full returns an error when n more calls would have to wait and a queue limit does not allow that.
func (s *Slots) Full(d Demand, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.elsewhere) > 0 {
		if err := s.tooMany(s.elsewhere, &d, 1, 1); err != nil {
			return err // Apply the limit even when a slot is free, because the call may have to wait for something else.
		}
	}
	if n -= s.freeLocked(&d); n <= 0 {
		return nil
	}
	q := s.queues[d.namespace]
	if q == nil {
		return s.tooManyOf(s.waiting, 0, 0, n)
	}
	return s.tooManyOf(s.waiting, q.waiting, q.principals[d.principal], n)
}

func (s *Slots) tooMany(counts map[scope]int, d *Demand, share, n int) error {
	all, namespace := counts[scope{}], counts[scope{namespace: d.namespace}]
	return s.tooManyOf(all/share, namespace/share, counts[scope{namespace: d.namespace, principal: d.principal}]/share, n)
}

// tooManyOf returns an error when n more waiting calls would exceed a limit. all, ofNamespace and ofPrincipal are the current numbers.
func (s *Slots) tooManyOf(all, ofNamespace, ofPrincipal, n int) error {
	switch {
	case all+n > s.queue:
		return QueueFull("too many calls are waiting; send the call again later")
	case ofNamespace+n > s.namespaceQueue:
		return QueueFull("too many calls of this namespace are waiting; send the call again later")
	case ofPrincipal+n > s.principalQueue:
		return QueueFull("too many of your calls are waiting; send the call again later")
	}
	return nil
}

// QueueFull returns the refusal of a call when too many calls wait already.
func QueueFull(message string) error {
	return &call.Refusal{Kind: call.ResourceExhausted, Reason: "QUEUE_FULL", Message: message, RetryAfter: time.Second}
}

// WaitElsewhere counts a call that waits for something other than a slot, until the caller invokes done. [Slots.Full] includes these calls.
func (s *Slots) WaitElsewhere(d Demand) (done func()) {
	s.countIn(&s.elsewhere, d, 1)
	return func() { s.countIn(&s.elsewhere, d, -1) }
}

func (s *Slots) countIn(counts *map[scope]int, d Demand, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	countAll(counts, &d, n)
}

// countAll adds n calls to the total and to the counts of their namespace and principal.
func countAll(counts *map[scope]int, d *Demand, n int) {
	for _, k := range [...]scope{{}, {namespace: d.namespace}, {namespace: d.namespace, principal: d.principal}} {
		count(counts, k, n)
	}
}

func count(counts *map[scope]int, k scope, n int) {
	if *counts == nil {
		*counts = map[scope]int{}
	}
	if (*counts)[k] += n; (*counts)[k] == 0 {
		delete(*counts, k)
	}
}

// Waits returns why a call waits in the queue. The field Ahead counts only calls of the call's namespace.
func (s *Slots) Waits(d Demand) *call.Queued {
	s.mu.Lock()
	defer s.mu.Unlock()
	var waiting, ofPrincipal, ofTool int
	if q := s.queues[d.namespace]; q != nil {
		waiting, ofPrincipal = q.waiting, q.principals[d.principal]
		for key, in := range q.queues {
			if key.tool == d.tool {
				ofTool += in.waiting.Len()
			}
		}
	}
	ahead := func(n int) int { return max(n-1, 0) } // without the call itself
	switch {
	case d.toolMax > 0 && s.running[scope{tool: d.tool}] >= d.toolMax:
		return &call.Queued{Reason: "TOOL", Ahead: ahead(ofTool), Limit: d.toolMax}
	case s.principal > 0 && s.running[scope{namespace: d.namespace, principal: d.principal}] >= s.principal:
		return &call.Queued{Reason: "PRINCIPAL", Ahead: ahead(ofPrincipal), Limit: s.principal}
	case s.namespace > 0 && s.running[scope{namespace: d.namespace}] >= s.namespace:
		return &call.Queued{Reason: "NAMESPACE", Ahead: ahead(waiting), Limit: s.namespace}
	}
	return &call.Queued{Reason: "DAEMON", Ahead: ahead(waiting), Limit: s.total}
}

// LendersFull returns an error when a call that will lend its slot must not start. The limit on lending calls equals the limit on waiting
// calls. For nested calls the limit is eight times as high: if they could not start, the calls that wait for them would wait forever.
func (s *Slots) LendersFull(p *tool.Principal, nested bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lent) == 0 {
		return nil
	}
	share := 1
	if nested {
		share = 8 // Eight is the greatest depth of subagents. Each level of subagents then has capacity even when all levels above it are full.
	}
	return s.tooMany(s.lent, &Demand{namespace: p.Namespace, principal: p.Subject}, share, 1)
}

// tryTake takes a slot if one is free. It cannot overtake a waiting call: a call that waits for the same limits would already have the
// slot.
func (s *Slots) tryTake(d *Demand) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.freeLocked(d) <= 0 {
		return false
	}
	s.takeLocked(d, 1)
	return true
}

// take takes a slot even when none is free, so the number of running calls may exceed the limit.
func (s *Slots) take(d *Demand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takeLocked(d, 1)
}

// wait takes a free slot, or puts the call into the queue. It returns a channel that is closed when the call has a slot. giveUp leaves the
// queue, or returns the slot if the call has it already.
func (s *Slots) wait(d *Demand) (turn <-chan struct{}, giveUp func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := make(chan struct{})
	if s.freeLocked(d) > 0 {
		s.takeLocked(d, 1)
		close(ready)
		return ready, func() { s.release(d) }
	}
	w := &waiter{Demand: *d, ready: ready}
	s.enqueueLocked(w)
	return ready, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if w.granted { // The slot came before giveUp. Return it, so that another call can use it.
			s.releaseLocked(d)
			return
		}
		s.dequeueLocked(w)
	}
}

// release frees a slot and passes it to the next waiting call.
func (s *Slots) release(d *Demand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(d)
}

func (s *Slots) releaseLocked(d *Demand) {
	s.takeLocked(d, -1)
	for s.waiting > 0 && s.taken < s.total && s.grantLocked() {
	}
}

// grantLocked gives one slot to the first waiting call that no limit blocks, and reports whether there is such a call.
func (s *Slots) grantLocked() bool {
	for e := s.order.Front(); e != nil; e = e.Next() {
		q := e.Value.(*namespaceQueue)
		for at := q.order.Front(); at != nil; at = at.Next() {
			next := at.Value.(*queue).waiting.Front().Value.(*waiter)
			if s.freeLocked(&next.Demand) <= 0 {
				continue
			}
			q.turnLocked(next)
			s.order.MoveToBack(e)
			s.dequeueLocked(next)
			s.takeLocked(&next.Demand, 1)
			next.granted = true
			close(next.ready)
			return true
		}
	}
	return false
}

// freeLocked returns how many more calls may run within the limits of d. The number may be negative.
func (s *Slots) freeLocked(d *Demand) int {
	free := s.total - s.taken
	if s.namespace > 0 {
		free = min(free, s.namespace-s.running[scope{namespace: d.namespace}])
	}
	if s.principal > 0 {
		free = min(free, s.principal-s.running[scope{namespace: d.namespace, principal: d.principal}])
	}
	if d.toolMax > 0 {
		free = min(free, d.toolMax-s.running[scope{tool: d.tool}])
	}
	return free
}

func (s *Slots) takeLocked(d *Demand, n int) {
	s.taken += n
	if s.namespace > 0 {
		count(&s.running, scope{namespace: d.namespace}, n)
	}
	if s.principal > 0 {
		count(&s.running, scope{namespace: d.namespace, principal: d.principal}, n)
	}
	if d.toolMax > 0 {
		count(&s.running, scope{tool: d.tool}, n)
	}
}

func (s *Slots) enqueueLocked(w *waiter) {
	q := s.queues[w.namespace]
	if q == nil {
		q = &namespaceQueue{namespace: w.namespace, principals: map[string]int{}, queues: map[scope]*queue{}}
		q.at = s.order.PushBack(q)
		if s.queues == nil {
			s.queues = map[string]*namespaceQueue{}
		}
		s.queues[w.namespace] = q
	}
	key := scope{principal: w.principal, tool: w.tool}
	in := q.queues[key]
	if in == nil {
		in = &queue{key: key}
		in.at = q.order.PushBack(in)
		q.queues[key] = in
	}
	w.in, w.at = in, in.waiting.PushBack(w)
	s.waiting++
	q.waiting++
	q.principals[w.principal]++
}

func (s *Slots) dequeueLocked(w *waiter) {
	q, in := s.queues[w.namespace], w.in
	in.waiting.Remove(w.at)
	s.waiting--
	q.waiting--
	if q.principals[w.principal]--; q.principals[w.principal] == 0 {
		delete(q.principals, w.principal)
	}
	if in.waiting.Len() == 0 {
		delete(q.queues, in.key)
		q.order.Remove(in.at)
	}
	if q.waiting == 0 {
		delete(s.queues, q.namespace)
		s.order.Remove(q.at)
	}
}

// turnLocked moves all queues of a principal that has just got a slot to the back.
func (q *namespaceQueue) turnLocked(next *waiter) {
	if len(q.queues) == len(q.principals) { // Here each principal has exactly one queue.
		q.order.MoveToBack(next.in.at)
		return
	}
	last := q.order.Back()
	for e := q.order.Front(); ; {
		following := e.Next()
		if e.Value.(*queue).key.principal == next.principal {
			q.order.MoveToBack(e)
		}
		if e == last {
			return
		}
		e = following
	}
}

// The states of a [Slot].
const (
	slotNone int32 = iota
	slotHeld
	slotLent
	slotReturned
)

// A Slot is the slot of one call. The zero value holds no slot. The tool of the call may lend the slot while another goroutine returns it.
// Exactly one of the two goroutines frees it.
type Slot struct {
	slots  *Slots
	demand Demand
	state  atomic.Int32
}

// Held reports whether the call ever received a slot. It also returns true while the slot is lent.
func (s *Slot) Held() bool { return s.state.Load() != slotNone }

// TryTake takes a slot if one is free. Otherwise [Slot.Wait] waits for one.
func (s *Slot) TryTake(from *Slots, d Demand) bool {
	s.slots, s.demand = from, d
	if !from.tryTake(&s.demand) {
		return false
	}
	s.Granted()
	return true
}

// Take takes a slot even when none is free. It is for a call that already runs.
func (s *Slot) Take(from *Slots, d Demand) {
	s.slots, s.demand = from, d
	from.take(&s.demand)
	s.Granted()
}

// Wait returns a channel that is closed when the call has a slot. The caller must then call [Slot.Granted]. To stop waiting, the caller
// invokes giveUp instead.
func (s *Slot) Wait() (turn <-chan struct{}, giveUp func()) { return s.slots.wait(&s.demand) }

// Granted records that the call has the slot that it waited for.
func (s *Slot) Granted() { s.state.Store(slotHeld) }

// Return frees the slot, unless it is lent.
func (s *Slot) Return() {
	if !s.Held() {
		return
	}
	switch s.state.Swap(slotReturned) {
	case slotHeld:
		s.slots.release(&s.demand)
	case slotLent:
		s.slots.countIn(&s.slots.lent, s.demand, -1)
	}
}

// Lend frees the slot for other calls until reclaim is called. reclaim waits for a slot, behind the calls that already wait. It fails when
// its ctx is done.
func (s *Slot) Lend() (reclaim func(ctx context.Context) error) {
	if !s.state.CompareAndSwap(slotHeld, slotLent) {
		return func(context.Context) error { return nil }
	}
	s.slots.lend(&s.demand)
	return func(ctx context.Context) error {
		turn, giveUp := s.Wait()
		select {
		case <-turn:
		case <-ctx.Done():
			giveUp()
			return context.Cause(ctx)
		}
		if s.state.CompareAndSwap(slotLent, slotHeld) {
			s.slots.countIn(&s.slots.lent, s.demand, -1)
		} else {
			giveUp()
		}
		return nil
	}
}

func (s *Slots) lend(d *Demand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	countAll(&s.lent, d, 1)
	s.releaseLocked(d)
}
