package memory

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
)

// Call returns a call.
func (s *Store) Call(ctx context.Context, key call.Key) (c *call.Call, err error) {
	err = s.read(ctx, func(st *state) error {
		r, err := st.find(key)
		if err == nil {
			c, err = r.call()
		}
		return err
	})
	return c, err
}

func (st *state) find(key call.Key) (*row, error) {
	if r, ok := st.calls[key]; ok {
		return r, nil
	}
	if _, ok := st.tombstones[key]; ok {
		return nil, store.ErrTrimmed
	}
	return nil, store.ErrNotFound
}

// CallBySuspension returns the call with this suspension, open or closed.
func (s *Store) CallBySuspension(ctx context.Context, namespace, id string) (c *call.Call, err error) {
	err = s.read(ctx, func(st *state) error {
		key, ok := st.suspensions[name{namespace, id}]
		if !ok {
			return store.ErrNotFound
		}
		c, err = st.calls[key].call()
		return err
	})
	return c, err
}

// Decision returns a decision by its id.
func (s *Store) Decision(ctx context.Context, namespace, id string) (d *store.Decision, err error) {
	err = s.read(ctx, func(st *state) error {
		found, ok := st.decisions[name{namespace, id}]
		if !ok {
			return store.ErrNotFound
		}
		found = copyOf(&found)
		d = &found
		return nil
	})
	return d, err
}

// Events returns a part of a call's log.
func (s *Store) Events(ctx context.Context, key call.Key, after int64, limit int) (events []call.Event, first int64, err error) {
	err = s.read(ctx, func(st *state) error {
		r, err := st.find(key)
		if err != nil {
			return err
		}
		if first = 1; len(r.chunks) == 0 {
			c, err := r.call()
			if err == nil && c.Purge != nil {
				first = c.LastSequence + 1
			}
			return err
		}
		for _, ch := range r.chunks {
			if ch.last <= after {
				continue
			}
			some, err := call.DecodeEvents(ch.events)
			if err != nil {
				return err
			}
			events = append(events, some[max(0, after+1-ch.first):]...)
			if limit > 0 && len(events) >= limit {
				events = events[:limit]
				break
			}
		}
		return nil
	})
	return events, first, err
}

// Calls returns a page of calls.
func (s *Store) Calls(ctx context.Context, q call.Query) (call.Page, error) {
	finder := rows.NewFinder(&q)
	err := s.read(ctx, func(st *state) error {
		for i := range st.order {
			if !q.OldestFirst {
				i = len(st.order) - 1 - i
			}
			r := st.calls[st.order[i]]
			if !beyond(q, r.position) || !matches(q, r) {
				continue
			}
			c, err := r.call()
			if err != nil {
				return err
			}
			if err := finder.Take(rows.Call{Position: r.position, Key: r.key, Call: c}); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, rows.ErrEnough) {
		err = nil
	}
	return finder.Page(), err
}

// Children returns one call of each run that a parent started.
func (s *Store) Children(ctx context.Context, namespace string, parents []string) (children []*call.Call, err error) {
	seen := map[string]bool{}
	err = s.read(ctx, func(st *state) error {
		for _, key := range st.order {
			r := st.calls[key]
			if key.Namespace != namespace || r.parent == "" || seen[r.run] || !slices.Contains(parents, r.parent) {
				continue
			}
			c, err := r.call()
			if err != nil {
				return err
			}
			seen[r.run] = true
			children = append(children, c)
		}
		return nil
	})
	return children, err
}

func matches(q call.Query, r *row) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return is(q.Namespace, r.key.Namespace) && is(q.Caller, r.caller) && is(q.Run, r.run) && is(q.Thread, r.thread) &&
		is(q.ParentCall, r.parent) && is(q.Batch, r.batch) && (len(q.Tools) == 0 || slices.Contains(q.Tools, r.tool)) && is(q.Action, r.action) &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, r.Status)) &&
		(q.CreatedAfter.IsZero() || !r.created.Before(q.CreatedAfter)) &&
		(q.CreatedBefore.IsZero() || r.created.Before(q.CreatedBefore))
}

// Unfinished visits the calls that recovery must check.
func (s *Store) Unfinished(ctx context.Context, visit func(call.Key, *call.Call, error) error) error {
	var found []*row
	err := s.read(ctx, func(st *state) error {
		for _, r := range st.open {
			if r.Status != call.Suspended {
				found = append(found, r)
			}
		}
		slices.SortFunc(found, func(a, b *row) int { return cmp.Compare(a.position, b.position) })
		return nil
	})
	for _, r := range found {
		if err != nil {
			return err
		}
		c, decodeErr := r.call()
		if err = visit(r.key, c, decodeErr); err == nil {
			err = ctx.Err()
		}
	}
	return err
}

func (st *state) waiting() []*row {
	var rows []*row
	for _, r := range st.open {
		if r.suspension != "" && r.expires != 0 {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.expires, b.expires), cmp.Compare(a.position, b.position))
	})
	return rows
}

// Expiring returns suspended calls of a namespace in the order of their expiry.
func (s *Store) Expiring(ctx context.Context, q call.Query) (page call.Page, err error) {
	limit := cmp.Or(q.Limit, 50)
	err = s.read(ctx, func(st *state) error {
		var last *row
		for _, r := range st.waiting() {
			if r.key.Namespace != q.Namespace || cmp.Or(cmp.Compare(r.expires, q.AfterExpiry), cmp.Compare(r.position, q.After)) <= 0 {
				continue
			}
			if len(page.Calls) == limit {
				page.Next, page.NextExpiry = last.position, last.expires
				break
			}
			c, err := r.call()
			if err != nil {
				return err
			}
			page.Calls, last = append(page.Calls, c), r
		}
		return nil
	})
	return page, err
}

// DueNamespaces returns the namespaces with suspended calls whose open suspension has expired.
func (s *Store) DueNamespaces(ctx context.Context) (names []string, err error) {
	err = s.read(ctx, func(st *state) error {
		now := s.Now()
		for _, r := range st.open {
			if r.suspension != "" && r.expires != 0 && now >= r.expires && !slices.Contains(names, r.key.Namespace) {
				names = append(names, r.key.Namespace)
			}
		}
		return nil
	})
	return names, err
}

// Due returns the suspended calls of a namespace whose open suspension has expired.
func (s *Store) Due(ctx context.Context, namespace string, limit int) (due []*call.Call, err error) {
	err = s.read(ctx, func(st *state) error {
		now := s.Now()
		for _, r := range st.waiting() {
			if len(due) == limit || now < r.expires {
				break
			}
			if r.key.Namespace != namespace {
				continue
			}
			c, err := r.call()
			if err != nil {
				return err
			}
			due = append(due, c)
		}
		return nil
	})
	return due, err
}

// NextExpiry returns when the next open suspension expires.
func (s *Store) NextExpiry(ctx context.Context) (at call.Stamp, err error) {
	err = s.read(ctx, func(st *state) error {
		for _, r := range st.open {
			if r.suspension != "" && r.expires != 0 && (at == 0 || r.expires < at) {
				at = r.expires
			}
		}
		return nil
	})
	return at, err
}

// Feed returns the events of many calls.
func (s *Store) Feed(ctx context.Context, f store.Feed, after int64, limit int) (entries []store.FeedEntry, newest int64, err error) {
	err = s.read(ctx, func(st *state) error {
		newest = st.position
		from, _ := slices.BinarySearchFunc(st.feed, after+1, func(e feedEntry, p int64) int { return cmp.Compare(e.position, p) })
		for _, e := range st.feed[from:] {
			if len(entries) == limit {
				break
			}
			r := st.calls[e.key]
			if r.key.Namespace != f.Namespace || f.Run != "" && f.Run != r.run || f.Thread != "" && f.Thread != r.thread || f.Batch != "" && f.Batch != r.batch || f.Caller != "" && f.Caller != r.caller {
				continue
			}
			i, _ := slices.BinarySearchFunc(r.chunks, e.position, func(c chunk, p int64) int { return cmp.Compare(c.position, p) })
			events, err := call.DecodeEvents(r.chunks[i].events)
			if err != nil {
				return err
			}
			c, err := r.call()
			if err != nil {
				return err
			}
			entries = append(entries, store.FeedEntry{Position: e.position, Key: e.key, Epoch: c.EpochOf(events[0].Sequence), Events: events})
		}
		return nil
	})
	return entries, newest, err
}

// beyond reports whether a position comes after q.After in list order.
func beyond(q call.Query, position int64) bool {
	if q.After == 0 {
		return true
	}
	if q.OldestFirst {
		return position > q.After
	}
	return position < q.After
}
