package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite"
)

// A recorded call is a call that a daemon executed, as its journal stores it. References write this call again, so that both sides write
// the same rows with the same fields.
type recorded struct {
	call   *call.Call
	events []call.Event
}

// A stage is one commit of a call: the resulting status and the newest event.
type stage struct {
	status call.Status
	last   int64
}

var (
	mutatingStages = []stage{{call.Running, 2}, {call.Succeeded, 3}}
	cycleStages    = []stage{{call.Suspended, 3}, {call.Resuming, 4}, {call.Running, 5}, {call.Succeeded, 6}}
)

// record lets a daemon execute one call and reads the call from the journal.
func record(ctx context.Context, s *settings, do op) (recorded, error) {
	p, err := startDaemon(ctx, s)
	if err != nil {
		return recorded{}, err
	}
	dir := p.dir
	defer os.RemoveAll(dir)
	p.dir = "" // keep the directory after stop
	n := serial.Add(1)
	client, end, err := p.client()
	if err == nil {
		err = do(ctx, client, n)
		end()
	}
	p.stop()
	if err != nil {
		return recorded{}, err
	}
	j, err := sqlite.Open(ctx, sqlite.Config{Dir: filepath.Join(dir, "data")})
	if err != nil {
		return recorded{}, err
	}
	defer j.Close()
	key := call.Key{Namespace: "default", ID: callSpec("", n).CallId}
	c, err := j.Call(ctx, key)
	if err != nil {
		return recorded{}, err
	}
	events, _, err := j.Events(ctx, key, 0, 0)
	return recorded{c, events}, err
}

// again commits the stages of a recorded call under new ids.
func (r recorded) again(ctx context.Context, j store.Store, n int64, stages []stage) error {
	if last := stages[len(stages)-1].last; int64(len(r.events)) != last {
		return fmt.Errorf("the call has %d events, not %d", len(r.events), last)
	}
	suspension, now, written := "s-"+rand.Text(), time.Now(), int64(0)
	for i, st := range stages {
		c := r.at(n, st, suspension, now)
		c.Revision = int64(i + 1)
		change := &store.Change{Call: c, Create: i == 0, Events: slices.Clone(r.events[written:st.last])}
		for k := range change.Events {
			ev := &change.Events[k]
			ev.Time = time.Now()
			switch {
			case ev.Suspension != nil:
				ev.Suspension = &c.Rounds[0].Suspension
			case ev.Decision != nil:
				ev.Decision = c.Rounds[0].Decision
				change.Decision = &store.Decision{
					Namespace: c.Namespace, ID: ev.Decision.ID, CallID: c.ID, SuspensionID: suspension, Content: digest, Decision: *ev.Decision,
				}
				change.NotAfter = c.Rounds[0].Suspension.ExpiresAt
			}
		}
		if err := j.Commit(ctx, change); err != nil {
			return err
		}
		written = st.last
	}
	return nil
}

// at returns the state of the record after a stage.
func (r recorded) at(n int64, st stage, suspension string, created time.Time) *call.Call {
	c := *r.call
	c.ID, c.Status, c.LastSequence, c.Created = fmt.Sprintf("direct-%020d", n), st.status, st.last, created
	c.Rounds, c.Attempts = slices.Clone(c.Rounds), slices.Clone(c.Attempts)
	for i := range c.Rounds {
		round := &c.Rounds[i]
		round.Suspension.ID, round.Suspension.Pending.ID = suspension, c.ID
		round.Suspension.Created, round.Suspension.ExpiresAt = call.StampOf(created), call.StampOf(created).Add(30*24*time.Hour)
		d := *round.Decision
		d.ID, d.Time = fmt.Sprintf("direct-decision-%020d", n), time.Now()
		round.Decision = &d
		if st.status == call.Suspended {
			round.Decision, round.Closed = nil, false
		}
	}
	switch st.status {
	case call.Suspended, call.Resuming:
		c.Attempts, c.Started = nil, time.Time{}
	case call.Running:
		c.Attempts[0].Ended = time.Time{}
	}
	if c.Ended = time.Now(); !st.status.Terminal() {
		c.Result, c.Executed, c.Ended = nil, call.NotStarted, time.Time{}
	}
	return &c
}

// againstJournal compares calls with the same rows written without a daemon.
func againstJournal(ctx context.Context, s *settings, do op, stages []stage) (result, error) {
	same, err := record(ctx, s, do)
	if err != nil {
		return result{}, err
	}
	daemon, err := startDaemon(ctx, s)
	if err != nil {
		return result{}, err
	}
	defer daemon.stop()
	j, end, err := openJournal(ctx, s)
	if err != nil {
		return result{}, err
	}
	defer end()
	var out result
	var a sample
	var direct float64
	for range s.rounds {
		if a, err = load(ctx, daemon, s.clients, s.duration, do); err != nil {
			return out, err
		}
		if direct, err = straight(ctx, s.clients, s.duration, func(n int64) error { return same.again(ctx, j, n, stages) }); err != nil {
			return out, err
		}
		out.ratios = append(out.ratios, a.rate/direct)
	}
	out.detail = fmt.Sprintf("%.0f and %.0f a second, CPU %v a call", a.rate, direct, a.cpu.Round(time.Microsecond))
	return out, nil
}
