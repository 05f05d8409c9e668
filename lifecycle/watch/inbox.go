package watch

import (
	"context"
	"errors"
	"io"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// The limits of a watcher of the inbox, in calls.
const (
	maxInbox   = 1000         // calls that a list shows
	mostInbox  = 2 * maxInbox // calls that are shown at once; it is higher than maxInbox, because new questions come in addition to the list
	maxListed  = 10_000       // maximum number of calls that a list reads; it is higher than maxInbox because the principal may be unable to see some calls
	inboxPage  = 16           // calls that are read at once: a record may have megabytes
	maxChanges = 1000         // changed calls that are remembered; after more, the watcher lists the calls again
)

// inboxNews collects the calls with a question that changed since a watcher of the inbox last looked. The mutex of the service guards it.
type inboxNews struct {
	namespace string
	ids       map[string]bool
	lost      bool // more calls changed than ids may hold
	wake      chan struct{}
}

// add adds a call. The caller holds the mutex.
func (n *inboxNews) add(key call.Key) {
	if key.Namespace != n.namespace {
		return
	}
	if len(n.ids) < maxChanges {
		n.ids[key.ID] = true
	} else {
		n.lost = true
	}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// An inboxWatcher implements [call.Stream] for the questions that a principal may see. It lists the suspended calls, and then reads each call
// that changes. It compares the record with what it has shown, so a missed step of a call does no harm.
type inboxWatcher struct {
	s         *Service
	as        tool.Principal
	news      *inboxNews
	heartbeat heartbeat

	shown map[string]shownQuestion // by call id
	list  *inboxList               // the list that is being read; nil between lists
	again []string                 // ids of calls to check once more; at most mostInbox
	more  bool                     // questions may wait that are not shown

	// refill says whether to list the calls again when few are shown. It is false after a list that ended because it read maxListed calls:
	// another list would read the same calls.
	refill bool

	caughtUp, ended, closed bool
}

// A shownQuestion is the state of a question that the client knows.
type shownQuestion struct {
	suspension string
	revision   int64
}

// An inboxList is the position in a list of suspended calls.
type inboxList struct {
	query call.Query
	calls []*call.Call // calls that were read but not yet checked
	read  int
	found map[string]bool // ids of the calls that the principal may see
	last  bool            // calls contains the last calls of the list
}

// WatchInbox streams the questions that a principal may see: all that wait, then [call.Frame.CaughtUp], then what changes. A principal that
// sees only its own calls gets the oldest questions first. Other principals get the questions that expire first.
func (s *Service) WatchInbox(p tool.Principal) call.Stream {
	w := &inboxWatcher{s: s, as: p, shown: map[string]shownQuestion{}, news: &inboxNews{namespace: p.Namespace, ids: map[string]bool{}, wake: make(chan struct{}, 1)}}
	s.mu.Lock()
	s.inboxes[w.news] = true // before the list, so that no change is missed
	s.mu.Unlock()
	s.count.Add(1)
	w.begin()
	return w
}

// Cursor implements [call.Stream]. The stream has no cursor.
func (w *inboxWatcher) Cursor() string { return "" }

// Close implements [call.Stream].
func (w *inboxWatcher) Close() {
	if w.closed {
		return
	}
	w.closed = true
	w.s.count.Add(-1)
	w.heartbeat.stop(w.s)
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	delete(w.s.inboxes, w.news)
}

// Next implements [call.Stream].
func (w *inboxWatcher) Next(ctx context.Context) (call.Frame, error) {
	for !w.ended {
		closing := w.s.cfg.Drain.Closing() // Read this before look, so that the client still gets everything that changed before the drain.
		if f, found, err := w.look(ctx); found || err != nil {
			return f, err
		}
		if closing {
			w.ended = true
			return call.Frame{Closing: true}, nil
		}
		select {
		case <-w.news.wake:
		case <-ctx.Done():
			return call.Frame{}, context.Cause(ctx)
		case <-w.s.cfg.Drain.Closed():
		case <-w.heartbeat.due(w.s):
			return call.Frame{Heartbeat: true}, nil
		}
	}
	return call.Frame{}, io.EOF
}

// look returns the next change. found is false when there is none.
func (w *inboxWatcher) look(ctx context.Context) (f call.Frame, found bool, err error) {
	for {
		if w.list != nil {
			f, found, err = w.fromList(ctx)
		} else {
			id, ok := w.changed()
			if !ok {
				return f, false, nil
			}
			f, found, err = w.check(ctx, id)
		}
		if found || err != nil {
			return f, found, err
		}
	}
}

// changed returns a call that changed, or begins a list. ok is true in both cases; for a list, the id is empty. The calls to check again
// come first: if they came after a new list, which adds such calls, the watcher could begin lists without end.
func (w *inboxWatcher) changed() (id string, ok bool) {
	if n := len(w.again); n > 0 {
		id, w.again = w.again[n-1], w.again[:n-1]
		return id, true
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.news.lost || w.refill && len(w.shown) < maxInbox/2 {
		w.news.lost = false
		clear(w.news.ids) // The list shows the same changes.
		w.begin()
		return "", true
	}
	for id := range w.news.ids {
		delete(w.news.ids, id)
		return id, true
	}
	return "", false
}

// begin begins a list of the suspended calls.
func (w *inboxWatcher) begin() {
	q := call.Query{Namespace: w.as.Namespace, Limit: inboxPage, ExpiresFirst: true}
	if !view.SeesAll(w.as) && !w.as.HasRole("approver") {
		q = call.Query{Namespace: w.as.Namespace, Limit: inboxPage, OldestFirst: true, Caller: w.as.Subject, Statuses: []call.Status{call.Suspended}}
	}
	w.list, w.more = &inboxList{query: q, found: map[string]bool{}}, false
	w.refill = false
}

// fromList looks at the next call of the list. After the last call, it notes the shown calls that the list did not contain for another
// check.
func (w *inboxWatcher) fromList(ctx context.Context) (f call.Frame, found bool, err error) {
	l := w.list
	if len(l.calls) == 0 && !l.last {
		return f, false, w.read(ctx, l)
	}
	full := len(l.found) >= maxInbox || l.read-len(l.calls) >= maxListed
	if len(l.calls) > 0 && !full {
		c := l.calls[0]
		l.calls = l.calls[1:]
		if !view.Sees(w.as, c) {
			return f, false, nil
		}
		l.found[c.ID] = true
		return w.show(c)
	}
	w.more = full && (len(l.calls) > 0 || !l.last)
	w.refill = w.more && len(l.found) >= maxInbox
	w.list = nil
	for id := range w.shown {
		if !l.found[id] {
			w.again = append(w.again, id)
		}
	}
	if w.caughtUp {
		return f, false, nil
	}
	w.caughtUp = true
	return call.Frame{CaughtUp: true, Inbox: &call.InboxChange{More: w.more}}, true, nil
}

// read reads the next calls of a list.
func (w *inboxWatcher) read(ctx context.Context, l *inboxList) error {
	list := w.s.cfg.Store.Calls
	if l.query.ExpiresFirst {
		list = w.s.cfg.Store.Expiring
	}
	page, err := list(ctx, l.query)
	if err != nil {
		return err
	}
	l.calls, l.last = page.Calls, page.Next == 0
	l.query.After, l.query.AfterExpiry = page.Next, page.NextExpiry
	l.read += len(page.Calls) + len(page.Corrupt)
	return nil
}

// check reads a call and returns what changed for the client. An empty id changes nothing.
func (w *inboxWatcher) check(ctx context.Context, id string) (f call.Frame, found bool, err error) {
	if id == "" {
		return f, false, nil
	}
	c, err := w.s.cfg.Store.Call(ctx, call.Key{Namespace: w.as.Namespace, ID: id})
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrTrimmed), errors.Is(err, store.ErrCorrupt):
		c = nil
	case err != nil:
		return f, false, err
	}
	if c != nil && view.Sees(w.as, c) {
		return w.show(c)
	}
	known, shown := w.shown[id]
	if !shown {
		return f, false, nil
	}
	delete(w.shown, id)
	return call.Frame{Inbox: &call.InboxChange{CallID: id, SuspensionID: known.suspension, Settled: call.SettledHidden}}, true, nil
}

// show returns what changed in a call that the principal may see: the question that the client knows is settled, or a question waits.
func (w *inboxWatcher) show(c *call.Call) (f call.Frame, found bool, err error) {
	open, now := c.Open(), shownQuestion{revision: c.Revision}
	if open != nil {
		now.suspension = open.ID
	}
	known, shown := w.shown[c.ID]
	switch {
	case shown && known.suspension != now.suspension:
		delete(w.shown, c.ID)
		w.again = append(w.again, c.ID) // The call may ask another question.
		return call.Frame{Inbox: w.settled(c, known.suspension)}, true, nil
	case open == nil || known == now:
		return f, false, nil
	case !shown && len(w.shown) >= mostInbox:
		w.more, w.refill = true, true
		return f, false, nil
	}
	w.shown[c.ID] = now
	return call.Frame{Inbox: &call.InboxChange{Call: view.Call(w.as, c), CallID: c.ID, SuspensionID: open.ID, Rights: w.s.cfg.Rights(c, w.as, open.ID)}}, true, nil
}

// settled returns how a question was settled.
func (w *inboxWatcher) settled(c *call.Call, suspension string) *call.InboxChange {
	change := &call.InboxChange{Call: view.Call(w.as, c), CallID: c.ID, SuspensionID: suspension, Settled: call.SettledCancel}
	for i := range c.Rounds {
		r := &c.Rounds[i]
		switch {
		case r.Suspension.ID != suspension:
		case r.Expired:
			change.Settled = call.SettledExpiry
		case r.Decision != nil:
			change.Settled, change.Decision = call.SettledDecision, r.Decision
		}
	}
	return change
}
