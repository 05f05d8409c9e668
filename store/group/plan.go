package group

import (
	"encoding/json"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// A Name is an id in its namespace.
type Name struct{ Namespace, ID string }

// A Document names a document of any namespace.
type Document struct {
	Namespace string
	store.DocumentKey
}

// A Scope is where documents are kept, of any namespace.
type Scope struct {
	Namespace string
	store.DocumentScope
}

// A Plan is a group on its way into a transaction. The fields that the Database fills begin with a state of the journal and
// follow the changes of the group, so that each change is decided on what the one before it leaves.
type Plan struct {
	Ops        []*Op
	Durability store.Durability // the strongest of the ops

	// What the plan asks for. The Database fills the maps of the same name; what it leaves out is not in the journal.
	AskCalls     []call.Key
	AskDecisions []Name
	AskDocuments []Document
	AskRooms     []Scope

	Calls     map[call.Key]*State
	Decisions map[Name]bool
	Documents map[Document]store.DocumentState
	Rooms     map[Scope]store.DocumentRoom
	// The Database sets these in Begin.
	Now      time.Time
	Position int64 // the newest that was given

	// What the plan writes, each in its order.
	Rows        []*Row // calls that change, in the order of their first change
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

// A Row is what a plan writes of one call.
type Row struct {
	Position int64
	Was      call.Status // before the group; empty of a new call
	Created  *Op         // nil when the call was there before
	Last     int64       // sequence of the last event that the call was created with; 0 when there was none
	Call     *call.Call  // nil when only events came
	Record   []byte
	Sequence int64 // of the newest event
}

// A Chunk is the events that one change adds to a call that was there before.
type Chunk struct {
	Position    int64
	Call        int64 // position of the call
	First, Last int64
	Events      []byte
}

// A Suspension is a row of the index of tickets.
type Suspension struct {
	Call    int64
	Action  string
	Open    bool
	Expires time.Time
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

// Due names the batch, run or queue of which the pending actions of a phase are due from now on, those excepted that the same plan
// stores.
type Due struct {
	Namespace, Phase, End string
}

// A Record is what a plugin keeps beside a call.
type Record struct {
	store.Record
	Position int64
	Of       call.Key // without an ID when it belongs to no call
	Time     time.Time
}

// Ordered keeps the newest value of each key, in the order in which the keys came: one statement must not change a row twice.
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

// reset makes the plan that of other ops, and keeps its memory.
func (p *Plan) reset(ops []*Op) {
	p.Ops, p.Durability = ops, store.Normal
	p.Now, p.Position = time.Time{}, 0
	if p.Calls == nil {
		p.Calls, p.Decisions = map[call.Key]*State{}, map[Name]bool{}
		p.Documents, p.Rooms = map[Document]store.DocumentState{}, map[Scope]store.DocumentRoom{}
	}
	clear(p.Calls)
	clear(p.Decisions)
	clear(p.Documents)
	clear(p.Rooms)
	p.AskCalls, p.AskDecisions, p.AskDocuments, p.AskRooms = p.AskCalls[:0], p.AskDecisions[:0], p.AskDocuments[:0], p.AskRooms[:0]
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

// emptied keeps the memory of a slice and lets go of what is in it.
func emptied[T any](s []T) []T {
	clear(s)
	return s[:0]
}

// ask notes what has to be known before a change is decided.
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

// Next gives a position. A feed that has read up to one has seen all that comes before it, because one transaction ends
// before the next begins.
func (p *Plan) Next() int64 {
	p.Position++
	return p.Position
}

// decide decides each change and notes what it writes.
func (p *Plan) decide() {
	for _, o := range p.Ops {
		o.Err = p.change(o)
	}
}

// change decides a change, then notes what it writes. A change that is refused leaves nothing.
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
		p.Runs = append(p.Runs, *c.Run)
	}
	p.Policies = append(p.Policies, c.Policies...)
	p.act(actions)
	for _, r := range c.Records {
		p.keep(c.Name(), r)
	}
	return nil
}

// step moves a call on.
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
		s.Standing = store.Standing{Status: c.Call.Status, Revision: c.Call.Revision, LastSequence: c.Call.LastSequence}
	}
	if n > 0 {
		s.LastSequence = c.Events[n-1].Sequence
		if !c.Create {
			p.Chunks = append(p.Chunks, Chunk{Position: at, Call: s.Position, First: c.Events[0].Sequence, Last: s.LastSequence, Events: o.Events})
		}
	}
	s.row.Sequence = s.LastSequence
}

// Visit visits the calls that the plan asked for, as it leaves them.
func (p *Plan) Visit(visit func(key call.Key, s State, changed bool)) {
	for key, s := range p.Calls {
		visit(key, State{Standing: s.Standing, Position: s.Position, Trimmed: s.Trimmed}, s.row != nil)
	}
}

// suspend keeps the index of tickets up to date. A change opens or closes at most the last of a call's rounds and the one
// before it.
func (p *Plan) suspend(c *call.Call, position int64) {
	for i := max(0, len(c.Rounds)-2); i < len(c.Rounds); i++ {
		s := &c.Rounds[i].Suspension
		p.Suspensions.put(Name{c.Namespace, s.ID}, SuspensionOf(c, s, position))
	}
}

// SuspensionOf is the row of a suspension of a call.
func SuspensionOf(c *call.Call, s *call.Suspension, position int64) Suspension {
	return Suspension{position, s.Action, s == c.Open(), s.ExpiresAt}
}

// answer returns the decision of a change in its stored form, if it has one.
func (p *Plan) answer(o *Op) (a Answer, err error) {
	if o.Change.Decision == nil {
		return a, nil
	}
	d, b := *o.Change.Decision, o.Decision
	if b == nil {
		d.Decision.Time = p.Now
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

// Link gives the records their positions, after all others so that new calls follow each other, and links the chained ones to those
// before them. last reads what is kept of the newest one of a kind in a namespace.
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

// EndOf is when a call ended; zero while it has not.
func EndOf(c *call.Call, now time.Time) time.Time {
	switch {
	case !c.Status.Terminal():
		return time.Time{}
	case c.Ended.IsZero():
		return now
	}
	return c.Ended
}
