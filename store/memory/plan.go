package memory

import (
	"bytes"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
)

// plan checks a change against the state and returns its effect. It does not modify the state.
func (st *state) plan(c *store.Change, now call.Stamp) (*effect, error) {
	old, err := st.check(c, now)
	if err != nil {
		return nil, err
	}
	namespace := c.Name().Namespace
	e := &effect{position: st.position + 1, created: c.Create, namespace: namespace}
	if err := st.planDocuments(e, c, now); err != nil {
		return nil, err
	}
	if c.Decision != nil {
		d := copyOf(c.Decision)
		if d.Decision.Time.IsZero() {
			d.Decision.Time = now.Time()
		}
		e.decision = &d
	}
	if c.Run != nil {
		c.Run.Changed = now
		r := *c.Run
		e.run = &r
	}
	for i, r := range c.Records {
		e.addRecord(st, r, st.recorded+1+int64(i), c.Name().ID, now)
	}
	for _, p := range c.Policies {
		e.policies = append(e.policies, policyOf(p, now))
	}
	e.actions = st.positioned(c.Actions)
	return e, planRow(e, old, c, now)
}

// copyOf returns a deep copy of a decision.
func copyOf(d *store.Decision) store.Decision {
	c := *d
	c.Decision.DecidedBy.Roles = slices.Clone(c.Decision.DecidedBy.Roles)
	c.Decision.Votes = slices.Clone(c.Decision.Votes)
	for i := range c.Decision.Votes {
		v := &c.Decision.Votes[i].Voter
		v.Roles = slices.Clone(v.Roles)
	}
	if m := c.Decision.Remember; m != nil {
		again := *m
		c.Decision.Remember = &again
	}
	return c
}

func (e *effect) addRecord(st *state, r store.Record, position int64, callID string, now call.Stamp) {
	r.Bytes = bytes.Clone(r.Bytes)
	if r.Chained {
		r.Bytes = store.Linked(lastOfKind(slices.Concat(st.records[e.namespace], e.records), r.Kind), e.namespace, callID, now, &r)
	}
	e.records = append(e.records, store.StoredRecord{Record: r, Position: position, CallID: callID, Time: now})
}

// lastOfKind returns the stored bytes of the newest record of a kind.
func lastOfKind(records []store.StoredRecord, kind string) []byte {
	for _, r := range slices.Backward(records) {
		if r.Kind == kind {
			return r.Bytes
		}
	}
	return nil
}

func (st *state) check(c *store.Change, now call.Stamp) (*row, error) {
	key := c.Name()
	decided := false
	if d := c.Decision; d != nil {
		_, decided = st.decisions[name{d.Namespace, d.ID}]
	}
	var found group.State
	old, ok := st.calls[key]
	if ok {
		found.CallState, found.Position = old.CallState, old.position
	}
	_, found.Trimmed = st.tombstones[key]
	return old, group.Admit(c, &found, decided, now)
}

func (st *state) planDocuments(e *effect, c *store.Change, now call.Stamp) error {
	if len(c.Documents) == 0 {
		return nil
	}
	writes, notices, err := c.ResolveDocuments(documentsOf{st, e.namespace})
	if err != nil {
		return err
	}
	e.documents = make(map[doc]document, len(writes))
	for k, v := range writes {
		e.documents[doc{e.namespace, k}] = document{v, now}
	}
	if c.OnDocuments != nil {
		c.OnDocuments(notices)
	}
	return c.Validate()
}

func planRow(e *effect, old *row, c *store.Change, now call.Stamp) error {
	var r *row
	if c.Call != nil {
		record, err := call.EncodeCall(c.Call)
		if err != nil {
			return err
		}
		r = newRow(old, c.Call, record, e.position, now)
	} else {
		again := *old
		r = &again
		r.updated = now
	}
	if n := len(c.Events); n > 0 {
		events, err := call.EncodeEvents(c.Events)
		if err != nil {
			return err
		}
		r.LastSequence = c.Events[n-1].Sequence
		r.chunks = append(slices.Clip(r.chunks), chunk{e.position, c.Events[0].Sequence, r.LastSequence, events})
		e.fed = true
	}
	e.row = r
	return nil
}
