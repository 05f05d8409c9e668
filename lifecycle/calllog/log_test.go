package calllog_test

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/store"
)

// A model is the expected state of a log, as watchers and the journal see it. Events are identified by their texts; each text is added
// once.
type model struct {
	log     calllog.Log
	behind  bool
	epochs  []call.EpochStart
	n       int64
	added   []int64 // all events in order, by their number in the test
	journal []int64
	watched []int64

	records []string       // keys of the records in the journal
	taken   []call.Event   // events of the write in progress; nil without a write
	beside  []store.Record // records of the write in progress
	last    int64          // the newest number before the write
}

func (m *model) event() call.Event {
	m.n++
	m.added = append(m.added, m.n)
	return call.Event{Type: call.EventAttemptStarted, Attempt: int(m.n)}
}

// recordsOf returns a record for each event, with the text of the event as its key.
func recordsOf(events []call.Event) (records []store.Record) {
	for _, ev := range events {
		records = append(records, store.Record{Key: strconv.Itoa(ev.Attempt)})
	}
	return records
}

func (m *model) write() {
	m.last = m.log.Last()
	m.taken, m.beside = m.log.Take()
	m.epochs = m.log.Number(m.taken, m.epochs, 1)
}

func (m *model) wrote(t *rapid.T) {
	m.log.Wrote(m.taken[len(m.taken)-1].Sequence)
	for _, ev := range m.taken {
		m.journal = append(m.journal, int64(ev.Attempt))
	}
	for _, r := range m.beside {
		m.records = append(m.records, r.Key)
	}
	m.publish(t, m.taken)
	m.taken = nil
}

// finish writes the remaining events and checks that none was lost.
func (m *model) finish(t *rapid.T) {
	if m.taken != nil {
		m.wrote(t)
	}
	if m.log.Unwritten() {
		m.write()
		m.wrote(t)
	}
	if len(m.journal) != len(m.added) || len(m.watched) != len(m.added) {
		t.Fatalf("of %d events the journal has %d, a watcher %d", len(m.added), len(m.journal), len(m.watched))
	}
	var records []string
	for _, n := range m.added {
		records = append(records, strconv.FormatInt(n, 10))
	}
	if !slices.Equal(m.records, records) {
		t.Fatalf("the journal has the records %v, not %v", m.records, records)
	}
}

func (m *model) publish(t *rapid.T, events []call.Event) {
	before := m.log.Published()
	changed := m.log.Changed()
	n := m.log.Publish(events)
	if woken := isClosed(changed); woken != (n > 0) {
		t.Fatalf("%d new events, woken: %t", n, woken)
	}
	for _, ev := range events {
		if ev.Sequence > before {
			m.watched = append(m.watched, int64(ev.Attempt))
		}
	}
}

// begin begins the log as for an accepted call, with memory for more events.
func (m *model) begin(t *rapid.T) {
	events := append(make([]call.Event, 0, calllog.Few), m.event())
	m.log.Begin(events, recordsOf(events), m.behind)
	if m.behind {
		m.epochs = m.log.Number(events, m.epochs, 1)
		m.publish(t, events)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestLog adds, writes and refuses events in random order. It checks that watchers and the journal get all events in order, none twice,
// with the numbers 1, 2, 3 and so on. A published number must always belong to the same event.
func TestLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{behind: rapid.Bool().Draw(t, "behind")}
		published := map[int64]int64{}
		if rapid.Bool().Draw(t, "begin") {
			m.begin(t)
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				events := make([]call.Event, 0, 3)
				for range rapid.IntRange(1, 3).Draw(t, "events") {
					events = append(events, m.event())
				}
				if m.behind {
					m.epochs = m.log.Number(events, m.epochs, 1)
				}
				m.log.Add(events, recordsOf(events))
				if m.behind {
					m.publish(t, events)
				}
			},
			"write": func(t *rapid.T) {
				if m.taken != nil || !m.log.Unwritten() {
					t.Skip("nothing to write")
				}
				m.write()
			},
			"wrote": func(t *rapid.T) {
				if m.taken == nil {
					t.Skip("no write")
				}
				m.wrote(t)
			},
			"failed": func(t *rapid.T) {
				if m.taken == nil {
					t.Skip("no write")
				}
				m.log.Failed(m.taken, m.beside, m.last)
				m.taken = nil
			},
			"": func(t *rapid.T) {
				for name, got := range map[string][]int64{"the journal": m.journal, "a watcher": m.watched} {
					for i := range got {
						if got[i] != m.added[i] {
							t.Fatalf("event %d of %s is %d, not %d", i, name, got[i], m.added[i])
						}
					}
				}
				if m.log.Published() != int64(len(m.watched)) || m.log.Written() != int64(len(m.journal)) || !m.behind && m.log.Published() > m.log.Written() {
					t.Fatalf("published %d, written %d, of %d and %d", m.log.Published(), m.log.Written(), len(m.watched), len(m.journal))
				}
				for from := int64(0); from < m.log.Published(); from++ {
					for i, ev := range m.log.After(from) {
						if was, known := published[ev.Sequence]; ev.Sequence != from+1+int64(i) || known && was != int64(ev.Attempt) {
							t.Fatalf("event %d after %d has the number %d and is %d, which was %d", i, from, ev.Sequence, ev.Attempt, was)
						}
						published[ev.Sequence] = int64(ev.Attempt)
					}
				}
			},
		})
		m.finish(t)
	})
}

// TestLogStaysSmall checks that memory holds only the newest events and those that are not in the journal.
func TestLogStaysSmall(t *testing.T) {
	var l calllog.Log
	var epochs []call.EpochStart
	for range 5000 {
		events := []call.Event{{Type: call.EventAttemptStarted}}
		epochs = l.Number(events, epochs, 1)
		l.Add(events, nil)
		l.Publish(events)
	}
	if !l.Full() || len(l.After(0)) == 0 {
		t.Errorf("full: %t; the first events that the journal does not have: %d", l.Full(), len(l.After(0)))
	}
	l.Take()
	l.Wrote(5000)
	if events := []call.Event{{Type: call.EventAttemptStarted}}; true {
		l.Number(events, epochs, 1)
		l.Publish(events)
	}
	if l.Full() || l.After(0) != nil || len(l.After(4900)) != 101 {
		t.Errorf("full: %t, %d events from the beginning, %d of the last 101", l.Full(), len(l.After(0)), len(l.After(4900)))
	}
}
