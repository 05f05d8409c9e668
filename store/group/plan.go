package group

import (
	"encoding/json"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// A Name is an id in its namespace.
type Name struct{ Namespace, ID string }

// A Document names a document with its namespace.
type Document struct {
	Namespace string
	store.DocumentKey
}

// A Scope is a document scope with its namespace.
type Scope struct {
	Namespace string
	store.DocumentScope
}

// A Plan describes a group of ops and its transaction. The Database fills some fields with the stored state. The plan updates these fields
// with each change of the group, so that each change is decided on the state that the previous change left.
type Plan struct {
	Ops        []*Op
	Durability store.Durability // the strongest durability that an op of the group asks for

	// These lists name the data that the plan needs. The Database reads it from the journal into the maps Calls, Decisions, Documents and
	// Usage. The entry of a key that is not in the journal stays zero.
	AskCalls     []call.Key
	AskDecisions []Name
	AskDocuments []Document
	AskUsage     []Scope

	Calls     map[call.Key]*State
	Decisions map[Name]bool
	Documents map[Document]store.DocumentState
	Usage     map[Scope]store.DocumentUsage
	// The Database sets these in Begin.
	Now      call.Stamp
	Position int64 // the newest assigned position

	// These lists contain the data that the plan writes, in order.
	Rows        []*Row // the changed calls, in the order of their first change
	Chunks      []Chunk
	Suspensions Ordered[Name, Suspension]
	Answers     []Answer
	Changed     Ordered[Document, store.DocumentState]
	Runs        []store.Run
	Policies    []store.Policy
	Due         []Due
	Actions     []Action
	Records     []Record
}

// A Row is the data that a plan writes for one call.
type Row struct {
	Position int64
	Was      call.Status // status before the group; empty for a new call
	Created  *Op         // the op that creates the call; nil when the call existed before
	Last     int64       // sequence of the last event that is stored with the creation; 0 when there is none
	Call     *call.Call  // nil when only events were added
	Record   []byte
	Sequence int64 // sequence of the newest event
}

// A Chunk holds the events that one change adds to an existing call.
type Chunk struct {
	Position    int64
	Call        int64 // position of the call
	First, Last int64
	Events      []byte
}

// A Suspension is a row of the index of suspensions.
type Suspension struct {
	Call    int64
	Action  string
	Open    bool
	Expires call.Stamp
}

// An Answer is a decision in its stored form.
type Answer struct {
	Name
	Bytes []byte
}

// An Action is an action in its stored form.
type Action struct {
	*store.Action
	Position int64
	Bytes    []byte
}

// Due names a batch or run that has ended. Its pending actions of Phase become due now. Actions that the same plan stores do not become
// due.
type Due struct {
	Namespace, Phase, End string
}

// A Record is a record that a plugin stores for a call.
type Record struct {
	store.Record
	Position int64
	Of       call.Key // the call of the record; ID is empty when the record belongs to no call
	Time     call.Stamp
}

// Ordered holds the newest value of each key, in the order in which the keys were added. It is needed because one statement must not change
// a row twice.
type Ordered[K comparable, V any] struct {
	Keys   []K
	Values map[K]V
}

func (o *Ordered[K, V]) put(k K, v V) {
	if o.Values == nil {
		o.Values = map[K]V{}
	}
	if _, ok := o.Values[k]; !ok {
		o.Keys = append(o.Keys, k)
	}
	o.Values[k] = v
}

func (o *Ordered[K, V]) reset() {
	clear(o.Keys)
	o.Keys = o.Keys[:0]
	clear(o.Values)
}

// reset prepares the plan for a new group of ops. It reuses the memory of the previous group.
func (p *Plan) reset(ops []*Op) {
	p.Ops, p.Durability = ops, store.Normal
	p.Now, p.Position = 0, 0
	if p.Calls == nil {
		p.Calls, p.Decisions = map[call.Key]*State{}, map[Name]bool{}
		p.Documents, p.Usage = map[Document]store.DocumentState{}, map[Scope]store.DocumentUsage{}
	}
	clear(p.Calls)
	clear(p.Decisions)
	clear(p.Documents)
	clear(p.Usage)
	p.AskCalls, p.AskDecisions, p.AskDocuments, p.AskUsage = p.AskCalls[:0], p.AskDecisions[:0], p.AskDocuments[:0], p.AskUsage[:0]
	p.Rows, p.Chunks, p.Answers = emptied(p.Rows), emptied(p.Chunks), emptied(p.Answers)
	p.Runs, p.Policies, p.Due, p.Actions, p.Records = emptied(p.Runs), emptied(p.Policies), emptied(p.Due), emptied(p.Actions), emptied(p.Records)
	p.Suspensions.reset()
	p.Changed.reset()
	for _, o := range ops {
		o.Err = nil
		if o.Change == nil || o.Change.Durability == store.Full {
			p.Durability = store.Full
		}
		if o.Change != nil {
			p.ask(o.Change)
		}
	}
}

// emptied returns the slice with length zero. It clears the elements, so that the slice keeps nothing alive.
func emptied[T any](s []T) []T {
	clear(s)
	return s[:0]
}

// ask adds the requests that the plan needs to decide a change.
func (p *Plan) ask(c *store.Change) {
	key := c.Name()
	if p.Calls[key] == nil {
		p.Calls[key] = &State{}
		p.AskCalls = append(p.AskCalls, key)
	}
	if d := c.Decision; d != nil {
		p.AskDecisions = append(p.AskDecisions, Name{d.Namespace, d.ID})
	}
	p.askDocuments(key.Namespace, c.Documents, c.Limits)
}

// Next assigns a position. Transactions run one after the other. A feed that has read up to a position has therefore seen everything before
// it.
func (p *Plan) Next() int64 {
	p.Position++
	return p.Position
}

// decide decides for each change whether it may commit, and records what it writes.
func (p *Plan) decide() {
	for _, o := range p.Ops {
		o.Err = p.change(o)
	}
}

// change decides whether a change may commit. If it may, change records what it writes.
func (p *Plan) change(o *Op) error {
	c := o.Change
	s := p.Calls[c.Name()]
	if err := Admit(c, s, c.Decision != nil && p.Decisions[Name{c.Decision.Namespace, c.Decision.ID}], p.Now); err != nil {
		return err
	}
	documents, err := p.resolve(o)
	if err != nil {
		return err
	}
	answer, err := p.answer(o)
	if err != nil {
		return err
	}
	actions, err := encodeActions(c.Actions)
	if err != nil {
		return err
	}
	at, was := p.Next(), s.Status
	p.step(s, o, at)
	if c.Call != nil && (was == call.Suspended || c.Call.Status == call.Suspended) {
		p.suspend(c.Call, s.Position)
	}
	p.write(c.Name().Namespace, documents)
	if c.Decision != nil {
		p.Answers = append(p.Answers, answer)
		p.Decisions[answer.Name] = true
	}
	if c.Run != nil {
		c.Run.Changed = p.Now
		p.Runs = append(p.Runs, *c.Run)
	}
	p.Policies = append(p.Policies, c.Policies...)
	p.act(actions)
	for _, r := range c.Records {
		p.keep(c.Name(), r)
	}
	return nil
}

// step records the new state of a call, and the row and chunk to write.
func (p *Plan) step(s *State, o *Op, at int64) {
	c, n := o.Change, len(o.Change.Events)
	if c.Create {
		s.Position = at
	}
	if c.Call == nil && n == 0 {
		return
	}
	if s.row == nil {
		s.row = &Row{Position: s.Position, Was: s.Status, Sequence: s.LastSequence}
		p.Rows = append(p.Rows, s.row)
	}
	if c.Create {
		s.row.Created = o
		if n > 0 {
			s.row.Last = c.Call.LastSequence
		}
	}
	if c.Call != nil {
		s.row.Call, s.row.Record = c.Call, o.Record
		s.CallState = store.CallState{Status: c.Call.Status, Revision: c.Call.Revision, LastSequence: c.Call.LastSequence}
	}
	if n > 0 {
		s.LastSequence = c.Events[n-1].Sequence
		if !c.Create {
			p.Chunks = append(p.Chunks, Chunk{Position: at, Call: s.Position, First: c.Events[0].Sequence, Last: s.LastSequence, Events: o.Events})
		}
	}
	s.row.Sequence = s.LastSequence
}

// Visit invokes visit with each call of AskCalls and its state after the plan. changed means that the plan writes a row for the call.
func (p *Plan) Visit(visit func(key call.Key, s State, changed bool)) {
	for key, s := range p.Calls {
		visit(key, State{CallState: s.CallState, Position: s.Position, Trimmed: s.Trimmed}, s.row != nil)
	}
}

// suspend updates the index of suspensions for a changed call. It looks only at the last two rounds, because a change cannot open or close
// an earlier one.
func (p *Plan) suspend(c *call.Call, position int64) {
	for i := max(0, len(c.Rounds)-2); i < len(c.Rounds); i++ {
		s := &c.Rounds[i].Suspension
		p.Suspensions.put(Name{c.Namespace, s.ID}, SuspensionOf(c, s, position))
	}
}

// SuspensionOf returns the index row of a call's suspension.
func SuspensionOf(c *call.Call, s *call.Suspension, position int64) Suspension {
	return Suspension{position, s.Action, s == c.Open(), s.ExpiresAt}
}

// answer returns the decision of a change, if any, in its stored form.
func (p *Plan) answer(o *Op) (a Answer, err error) {
	if o.Change.Decision == nil {
		return a, nil
	}
	d, b := *o.Change.Decision, o.Decision
	if b == nil {
		d.Decision.Time = p.Now.Time()
		if b, err = json.Marshal(d); err != nil {
			return a, err
		}
	}
	return Answer{Name{d.Namespace, d.ID}, b}, nil
}

func encodeActions(actions []store.Action) (encoded []Action, err error) {
	for i := range actions {
		b, err := json.Marshal(&actions[i])
		if err != nil {
			return nil, err
		}
		encoded = append(encoded, Action{Action: &actions[i], Bytes: b})
	}
	return encoded, nil
}

func (p *Plan) act(actions []Action) {
	for _, a := range actions {
		a.Position = p.Next()
		p.Actions = append(p.Actions, a)
	}
}

func (p *Plan) keep(of call.Key, r store.Record) {
	p.Records = append(p.Records, Record{Record: r, Of: of, Time: p.Now})
}

// Link assigns positions to the records. It does so after all other positions are assigned, so that new calls have consecutive positions.
// It links each chained record to the previous one. last reads the stored bytes of the newest record of a kind in a namespace.
func (p *Plan) Link(last func(namespace, kind string) ([]byte, error)) (err error) {
	type chain struct{ namespace, kind string }
	before := map[chain][]byte{}
	for i := range p.Records {
		r := &p.Records[i]
		r.Position = p.Next()
		if !r.Chained {
			continue
		}
		of := chain{r.Of.Namespace, r.Kind}
		kept, ok := before[of]
		if !ok {
			if kept, err = last(r.Of.Namespace, r.Kind); err != nil {
				return err
			}
		}
		r.Bytes = store.Linked(kept, r.Of.Namespace, r.Of.ID, r.Time, &r.Record)
		before[of] = r.Bytes
	}
	return nil
}

// EndOf returns the end time of a call whose status is stored now, or the zero stamp when the call has not ended. It is not the end in the
// record, which is a time of the machine's clock.
func EndOf(c *call.Call, now call.Stamp) call.Stamp {
	if c.Status.Terminal() {
		return now
	}
	return 0
}
