package sqlite

import (
	"fmt"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// applyChange looks at all that a change requires, then writes it. What it refuses has written nothing.
func (w *writer) applyChange(o *op) error {
	c, now := o.change, w.s.clock.now()
	position, was, err := w.permit(c, now)
	if err != nil {
		return err
	}
	documents, err := w.resolveDocuments(o)
	if err != nil {
		return err
	}
	at := w.next()
	switch {
	case c.Create:
		position = at
		if o.packs(now) {
			err = w.gather(o, at, now)
		} else {
			err = w.insertCall(o, at, now)
		}
		if err == nil {
			err = w.enrol(c.Call, at)
		}
	case c.Call != nil:
		err = w.updateCall(o, position, now)
	default:
		err = w.touchCall(o, position, now)
	}
	if err == nil && len(o.events) > 0 && !c.Create {
		err = w.insertEvents(o, position, at)
	}
	if err == nil && c.Call != nil && (was == call.Suspended || c.Call.Status == call.Suspended) {
		err = w.writeSuspensions(c.Call, position)
	}
	if err == nil {
		err = w.writeDocuments(c.Name().Namespace, documents, now)
	}
	if err == nil && c.Decision != nil {
		err = w.insertDecision(o, now)
	}
	if err == nil && c.Run != nil {
		err = w.writeRun(c.Run)
	}
	if err == nil && len(c.Policies) > 0 {
		err = w.writePolicies(c.Policies, now)
	}
	if err == nil && len(c.Actions) > 0 {
		err = w.insertActions(c.Actions)
	}
	if err == nil {
		w.keep(c.Name(), now, c.Records...)
	}
	return err
}

const selectStanding = "SELECT position, '', '', status, revision, last_sequence, 0, NULL FROM calls WHERE namespace = ?1 AND call_id = ?2 UNION ALL " + selectPacked

// permit says whether a change may be made, and of which call. Of several reasons against it the first counts: a
// replayed decision is told as one even when it comes too late.
func (w *writer) permit(c *store.Change, now time.Time) (position int64, was call.Status, err error) {
	if c.Decision != nil {
		if err := w.checkDecision(c.Decision); err != nil {
			return 0, "", err
		}
	}
	var standing store.Standing
	if key := c.Name(); !c.Create || !w.s.ids.excludes(ofCall(key)) {
		if position, standing, err = w.find(key); err != nil {
			return 0, "", err
		}
		switch {
		case position != 0 && c.Create:
			return 0, "", store.ErrExists
		case position == 0 && !c.Create:
			return 0, "", store.ErrNotFound
		}
	}
	if err := c.Follows(standing); err != nil {
		return 0, "", err
	}
	if !c.NotAfter.IsZero() && !now.Before(c.NotAfter) {
		return 0, "", store.ErrExpired
	}
	if !c.NotBefore.IsZero() && now.Before(c.NotBefore) {
		return 0, "", store.ErrTooEarly
	}
	return position, standing.Status, nil
}

// find returns how a call stands; its position is 0 when the id is not known, and ErrTrimmed tells that it was.
func (w *writer) find(key call.Key) (position int64, standing store.Standing, err error) {
	if w.gathered.has(key) {
		if err := w.writePack(); err != nil {
			return 0, standing, err
		}
	}
	err = query(w.conn, selectStanding, func(st *sqlite.Stmt) error {
		position = st.ColumnInt64(0)
		if standing = (store.Standing{Status: call.Status(st.ColumnText(3)), Revision: st.ColumnInt64(4), LastSequence: st.ColumnInt64(5)}); inPack(st) {
			m := new(pack).find(st)
			standing = store.Standing{Status: call.Succeeded, Revision: 1, LastSequence: m.eventsLast}
		}
		return errEnough
	}, key.Namespace, key.ID)
	if err == nil && position == 0 {
		var trimmed bool
		if trimmed, err = w.s.isTrimmed(w.conn, key); trimmed {
			err = store.ErrTrimmed
		}
	}
	return position, standing, err
}

// resolveDocuments works out what a change's documents become, tells its callbacks once, and encodes what they left.
func (w *writer) resolveDocuments(o *op) (map[store.DocumentKey]store.DocumentState, error) {
	c := o.change
	if len(c.Documents) == 0 {
		return nil, nil
	}
	writes, told, err := c.ResolveDocuments(documentsOf{w, c.Name().Namespace})
	if err != nil {
		return nil, err
	}
	if o.told == nil {
		o.told = slices.Clone(told)
		if c.OnDocuments != nil {
			c.OnDocuments(told)
		}
		if err := c.Validate(); err != nil {
			return nil, err
		}
		return writes, o.encode()
	}
	// The group is tried again, and what the callbacks have written into the events must be what happens.
	same := func(a, b call.DocumentNotice) bool {
		a.Expected, b.Expected = nil, nil
		return a == b
	}
	if !slices.EqualFunc(told, o.told, same) {
		return nil, fmt.Errorf("%w: its documents changed while it was written", store.ErrConflict)
	}
	return writes, nil
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
