package lifecycle

import (
	"container/list"
	"sync"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// A ToolLimit bounds how many calls of a tool run at once.
type ToolLimit struct {
	Tools string // glob on ids; each tool that it matches is counted alone, and so are tools of two sources that have one id
	Calls int
}

// places bounds how many calls run at once: in all, of a namespace, of a principal, of a tool. The others wait. When a place
// comes free it goes to the namespace that had none for the longest time, in it to the principal of whom that holds, and of
// that one to the call that came first: a flood waits behind itself. A call that another limit holds up lets others pass.
type places struct {
	most, length         int
	namespace, principal int // running calls of each; 0: any number
	namespaceQueue       int // waiting calls of each
	principalQueue       int
	tools                []ToolLimit

	mu      sync.Mutex
	taken   int
	waiting int
	held    map[holder]int // running calls of what is limited
	aside   map[holder]int // calls that wait for something else, such as their turn in a thread; the zero holder has all
	lent    map[holder]int // calls that lent their place to calls of their own; the zero holder has all
	lines   map[string]*crowd
	order   list.List // of *crowd, whose turn is next first
}

// A want is for what a call counts.
type want struct {
	namespace, principal string
	tool                 string // source and id, when it is limited
	toolMost             int
}

// A holder is what may be limited, with the fields of a want that name it.
type holder struct{ namespace, principal, tool string }

// A crowd is the calls of a namespace that wait.
type crowd struct {
	namespace  string
	waiting    int
	principals map[string]int // how many of each
	lines      map[holder]*line
	order      list.List // of *line
	at         *list.Element
}

// A line is the calls that wait for the same.
type line struct {
	key     holder
	waiting list.List // of *waiter
	at      *list.Element
}

type waiter struct {
	want
	ready chan struct{} // closed when it has a place
	given bool
	at    *list.Element
	in    *line
}

// newPlaces returns places for so many calls at once, and so many that wait.
func newPlaces(most, length int) *places {
	return &places{most: most, length: length, namespaceQueue: length, principalQueue: length}
}

// limited reports whether more than the number of all is counted.
func (s *places) limited() bool { return s.namespace > 0 || s.principal > 0 || len(s.tools) > 0 }

// wantOf returns for what a call counts.
func (s *places) wantOf(p *tool.Principal, d *tool.Descriptor) want {
	w := want{namespace: p.Namespace, principal: p.Subject}
	for _, t := range s.tools {
		if hook.Glob(t.Tools, d.ID) {
			w.tool, w.toolMost = d.Source+"\x00"+d.ID, t.Calls // workers of two namespaces have tools of one id
			break
		}
	}
	return w
}

func (s *places) count() (taken, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken, s.waiting
}

// full returns why n calls may not wait; nil when they may, or need not.
func (s *places) full(w want, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.aside) > 0 {
		err := s.tooMany(s.aside[holder{}], s.aside[holder{namespace: w.namespace}], s.aside[holder{namespace: w.namespace, principal: w.principal}], 1)
		if err != nil {
			return err // whether this one would have to wait, too, is not known yet
		}
	}
	if n -= s.freeLocked(&w); n <= 0 {
		return nil
	}
	c := s.lines[w.namespace]
	if c == nil {
		return s.tooMany(s.waiting, 0, 0, n)
	}
	return s.tooMany(s.waiting, c.waiting, c.principals[w.principal], n)
}

// tooMany returns which of those that wait would be too many with n more.
func (s *places) tooMany(all, ofNamespace, ofPrincipal, n int) error {
	switch {
	case all+n > s.length:
		return queueFull("too many calls are waiting; send the call again later")
	case ofNamespace+n > s.namespaceQueue:
		return queueFull("too many calls of this namespace are waiting; send the call again later")
	case ofPrincipal+n > s.principalQueue:
		return queueFull("too many of your calls are waiting; send the call again later")
	}
	return nil
}

// besides counts n more calls that wait for something else: the fence holds them to the same numbers.
func (s *places) besides(w want, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	countAll(&s.aside, w, n)
}

// countAll counts n more calls in all, of their namespace and of their principal.
func countAll(counts *map[holder]int, w want, n int) {
	if *counts == nil {
		*counts = map[holder]int{}
	}
	for _, k := range [...]holder{{}, {namespace: w.namespace}, {namespace: w.namespace, principal: w.principal}} {
		if (*counts)[k] += n; (*counts)[k] == 0 {
			delete(*counts, k)
		}
	}
}

// take reports whether there was a place. Nobody waits for the same then: who does would have it.
func (s *places) take(w want) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.freeLocked(&w) <= 0 {
		return false
	}
	s.holdLocked(&w, 1)
	return true
}

// hold counts a call that runs already, also when there was no place for it.
func (s *places) hold(w want) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holdLocked(&w, 1)
}

// line returns what is closed when there is a place, and how to give up waiting.
func (s *places) line(w want) (turn <-chan struct{}, giveUp func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := make(chan struct{})
	if s.freeLocked(&w) > 0 {
		s.holdLocked(&w, 1)
		close(ready)
		return ready, func() { s.give(w) }
	}
	in := &waiter{want: w, ready: ready}
	s.joinLocked(in)
	return ready, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if in.given { // the place came meanwhile: somebody else may have it
			s.giveLocked(&w)
			return
		}
		s.leaveLocked(in)
	}
}

// give passes a place on.
func (s *places) give(w want) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveLocked(&w)
}

func (s *places) giveLocked(w *want) {
	s.holdLocked(w, -1)
	for s.waiting > 0 && s.taken < s.most && s.passLocked() {
	}
}

// passLocked gives one place to who is next, if somebody may have it.
func (s *places) passLocked() bool {
	for e := s.order.Front(); e != nil; e = e.Next() {
		c := e.Value.(*crowd)
		for at := c.order.Front(); at != nil; at = at.Next() {
			next := at.Value.(*line).waiting.Front().Value.(*waiter)
			if s.freeLocked(&next.want) <= 0 {
				continue
			}
			c.turnLocked(next)
			s.order.MoveToBack(e)
			s.leaveLocked(next)
			s.holdLocked(&next.want, 1)
			next.given = true
			close(next.ready)
			return true
		}
	}
	return false
}

// freeLocked returns how many more calls may run; it may be below 0.
func (s *places) freeLocked(w *want) int {
	free := s.most - s.taken
	if s.namespace > 0 {
		free = min(free, s.namespace-s.held[holder{namespace: w.namespace}])
	}
	if s.principal > 0 {
		free = min(free, s.principal-s.held[holder{namespace: w.namespace, principal: w.principal}])
	}
	if w.toolMost > 0 {
		free = min(free, w.toolMost-s.held[holder{tool: w.tool}])
	}
	return free
}

func (s *places) holdLocked(w *want, n int) {
	s.taken += n
	if !s.limited() {
		return
	}
	if s.held == nil {
		s.held = map[holder]int{}
	}
	count := func(limited bool, k holder) {
		if !limited {
			return
		}
		if s.held[k] += n; s.held[k] == 0 {
			delete(s.held, k)
		}
	}
	count(s.namespace > 0, holder{namespace: w.namespace})
	count(s.principal > 0, holder{namespace: w.namespace, principal: w.principal})
	count(w.toolMost > 0, holder{tool: w.tool})
}

func (s *places) joinLocked(in *waiter) {
	c := s.lines[in.namespace]
	if c == nil {
		c = &crowd{namespace: in.namespace, principals: map[string]int{}, lines: map[holder]*line{}}
		c.at = s.order.PushBack(c)
		if s.lines == nil {
			s.lines = map[string]*crowd{}
		}
		s.lines[in.namespace] = c
	}
	key := holder{principal: in.principal, tool: in.tool}
	l := c.lines[key]
	if l == nil {
		l = &line{key: key}
		l.at = c.order.PushBack(l)
		c.lines[key] = l
	}
	in.in, in.at = l, l.waiting.PushBack(in)
	s.waiting++
	c.waiting++
	c.principals[in.principal]++
}

// leaveLocked takes out who waits no longer.
func (s *places) leaveLocked(in *waiter) {
	c, l := s.lines[in.namespace], in.in
	l.waiting.Remove(in.at)
	s.waiting--
	c.waiting--
	if c.principals[in.principal]--; c.principals[in.principal] == 0 {
		delete(c.principals, in.principal)
	}
	if l.waiting.Len() == 0 {
		delete(c.lines, l.key)
		c.order.Remove(l.at)
	}
	if c.waiting == 0 {
		delete(s.lines, c.namespace)
		s.order.Remove(c.at)
	}
}

// turnLocked puts all lines of who gets a place behind those of the others.
func (c *crowd) turnLocked(next *waiter) {
	if len(c.lines) == len(c.principals) { // one each
		c.order.MoveToBack(next.in.at)
		return
	}
	last := c.order.Back()
	for e := c.order.Front(); ; {
		following := e.Next()
		if e.Value.(*line).key.principal == next.principal {
			c.order.MoveToBack(e)
		}
		if e == last {
			return
		}
		e = following
	}
}

// wantOf returns for what a new call would count.
func (e *Engine) wantOf(p *tool.Principal, spec *call.Spec) want {
	d := &tool.Descriptor{ID: spec.Tool}
	if len(e.places.tools) > 0 {
		if def, ok := e.cfg.Tools.Lookup(p.Namespace, spec.Tool); ok {
			d = def.Descriptor // not an alias
		}
	}
	return e.places.wantOf(p, d)
}
