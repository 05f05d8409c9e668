package turns

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/turn"
)

// An Engine runs batches and reads their results.
type Engine interface {
	ExecuteBatch(ctx context.Context, p tool.Principal, spec call.BatchSpec, o call.ExecuteOptions) (call.Stream, error)
	WatchBatch(ctx context.Context, p tool.Principal, id, cursor string, follow bool) (call.Stream, error)
	// BatchState returns the record of a batch and the current records of its calls.
	BatchState(ctx context.Context, p tool.Principal, id string) (*call.Batch, *call.BatchFinished, error)
	ReadArtifact(ctx context.Context, p tool.Principal, id, name string, offset int64, limit int) (call.Part, error)
}

// A Request is a model's response whose calls are to run.
type Request struct {
	turn.Request
	ID string // 16 to 64 characters, chosen by the client, unique in the namespace
	// Call has what all calls have in common: Run, OnBehalfOf, Timeouts and Frontend.
	Call call.Spec
	call.BatchOptions
}

// A Query reads a turn.
type Query struct {
	ID string
	// Wait is how long Get may wait for calls that have no result yet.
	Wait time.Duration
	// Placeholders requests a marked text as the answer to each call without a result.
	Placeholders bool
	// Late lists calls that have only a placeholder in the client's history. If it is not empty, Get returns a single message with the
	// results of these calls.
	Late []string
}

// A Service executes turns.
type Service struct {
	engine Engine
}

// New returns a service.
func New(e Engine) *Service { return &Service{e} }

// Execute runs the calls of a turn, or attaches to a turn that has begun. The stream begins with TurnStarted, continues with the frames of
// the batch, and ends with TurnFinished. When each call has a result, the messages come directly before TurnFinished. Execute does not
// store a response without calls for toold.
func (s *Service) Execute(ctx context.Context, p tool.Principal, r Request, o call.ExecuteOptions) (call.Stream, error) {
	if err := call.CheckID("turn_id", r.ID, 16); err != nil {
		return nil, err
	}
	t, err := turn.Parse(r.Request)
	if err != nil {
		return nil, err
	}
	if len(t.Calls) == 0 {
		return &stream{next: []call.Frame{{TurnStarted: &call.TurnStarted{}}, {TurnFinished: finished(t, nil)}}}, nil
	}
	spec, err := batchOf(t, p, &r)
	if err != nil {
		return nil, err
	}
	batch, err := s.engine.ExecuteBatch(ctx, p, spec, o)
	if err != nil {
		return nil, refused(err, r.ID)
	}
	return &stream{
		id: r.ID, batch: batch, next: []call.Frame{{Cursor: batch.Cursor(), TurnStarted: started(t, spec.ID, ids(spec.Calls))}},
		finish: func(ctx context.Context, b *call.BatchFinished) ([]call.Frame, error) {
			return s.results(ctx, p, t, b, turn.Options{})
		},
	}, nil
}

// Get returns the messages of a turn as a stream: TurnStarted, messages, TurnFinished. If a call has no result and the query requests no
// placeholders, the stream contains no messages. There is one exception, for the AI SDK's format: the stream contains messages when all
// calls without a result wait for an approval.
func (s *Service) Get(ctx context.Context, p tool.Principal, q Query) (call.Stream, error) {
	if err := call.CheckID("turn_id", q.ID, 16); err != nil {
		return nil, err
	}
	id := batchID(q.ID)
	record, state, err := s.engine.BatchState(ctx, p, id)
	if err == nil && len(record.Turn) == 0 {
		err = call.Refuse(call.NotFound, "TURN_NOT_FOUND", "there is no turn %q", q.ID)
	}
	if err == nil && len(state.Open) > 0 && q.Wait > 0 {
		if state, err = s.await(ctx, p, id, q.Wait); errors.Is(err, errNotYet) {
			_, state, err = s.engine.BatchState(ctx, p, id)
		}
	}
	if err != nil {
		return nil, refused(err, q.ID)
	}
	t := new(turn.Turn)
	if err := json.Unmarshal(record.Turn, t); err != nil {
		return nil, err
	}
	var frames []call.Frame
	if len(q.Late) > 0 {
		frames, err = s.late(ctx, p, t, state, q.Late)
	} else {
		frames, err = s.results(ctx, p, t, state, turn.Options{Placeholders: q.Placeholders})
	}
	if err != nil {
		return nil, err
	}
	return &stream{next: append([]call.Frame{{TurnStarted: started(t, id, record.Calls)}}, frames...)}, nil
}

var errNotYet = errors.New("the batch has not finished")

// await waits until the calls of a batch have ended and returns them. When they do not end within the time wait, it returns errNotYet.
func (s *Service) await(ctx context.Context, p tool.Principal, id string, wait time.Duration) (*call.BatchFinished, error) {
	w, err := s.engine.WatchBatch(ctx, p, id, "", true)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	waiting, cancel := context.WithTimeoutCause(ctx, wait, errNotYet)
	defer cancel()
	for {
		f, err := w.Next(waiting)
		switch {
		case err != nil && ctx.Err() == nil && errors.Is(context.Cause(waiting), errNotYet), f.Closing:
			return nil, errNotYet
		case err != nil:
			return nil, err
		case f.BatchFinished != nil:
			return f.BatchFinished, nil
		}
	}
}

// results returns the messages of a turn and its last frame.
func (s *Service) results(ctx context.Context, p tool.Principal, t *turn.Turn, b *call.BatchFinished, o turn.Options) ([]call.Frame, error) {
	answers, err := outcomes(b)
	if err == nil {
		err = s.load(ctx, p, t, answers, o)
	}
	if err != nil {
		return nil, err
	}
	messages, err := t.Messages(answers, o)
	var open *call.Refusal
	if errors.As(err, &open) && open.Reason == turn.ReasonOpen {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return append(split(messages), call.Frame{TurnFinished: finished(t, b)}), nil
}

// late returns one message with the results of some calls, and the last frame of the turn.
func (s *Service) late(ctx context.Context, p tool.Principal, t *turn.Turn, b *call.BatchFinished, calls []string) ([]call.Frame, error) {
	if err := known(b, calls); err != nil {
		return nil, err
	}
	answers, err := outcomes(b)
	if err != nil {
		return nil, err
	}
	for i := range answers { // Select the calls before load runs: otherwise the media of other calls would use up the budget.
		if !slices.Contains(calls, answers[i].CallID) {
			answers[i] = turn.Answer{CallID: answers[i].CallID}
		}
	}
	if err := s.load(ctx, p, t, answers, turn.Options{}); err != nil {
		return nil, err
	}
	message, err := t.Late(answers, turn.Options{})
	if err != nil {
		return nil, err
	}
	var frames []call.Frame
	if message != nil {
		frames = split([][]byte{message})
	}
	return append(frames, call.Frame{TurnFinished: finished(t, b)}), nil
}

func known(b *call.BatchFinished, calls []string) error {
	for _, id := range calls {
		if !slices.ContainsFunc(b.Calls, func(c *call.Call) bool { return c.ID == id }) {
			return call.InvalidField("late_call_ids", "%q is not a call of the turn", id)
		}
	}
	return nil
}

// outcomes returns the outcome of each call, without the bytes of artifacts.
func outcomes(b *call.BatchFinished) ([]turn.Answer, error) {
	answers := make([]turn.Answer, len(b.Calls))
	for i, c := range b.Calls {
		a := &answers[i]
		a.CallID = c.ID
		switch {
		case c.Status == "":
			return nil, call.Refuse(call.FailedPrecondition, "TURN_EXPIRED", "the results of the turn are no longer stored; use a new turn_id")
		case c.Status.Terminal():
			a.Result = c.Result
		default:
			a.Waiting = new(turn.Waiting)
			if open := c.Open(); open != nil {
				*a.Waiting = turn.Waiting{Action: open.Action, Message: open.Message, SuspensionID: open.ID}
			}
		}
	}
	return answers, nil
}

// load adds the bytes of the artifacts that the messages need.
func (s *Service) load(ctx context.Context, p tool.Principal, t *turn.Turn, answers []turn.Answer, o turn.Options) error {
	needs, err := t.Needs(answers, o)
	for _, n := range needs {
		a := &answers[n.Answer]
		data, err := s.artifact(ctx, p, a.CallID, n.Artifact)
		if err != nil {
			return err
		}
		if a.Media == nil {
			a.Media = map[string][]byte{}
		}
		if data != nil {
			a.Media[n.Artifact] = data
		}
	}
	return err
}

const (
	pieceSize = 256 << 10 // bytes that artifact reads at once
	maxMedia  = 4 << 20   // bytes of all media of a turn, the default of package turn
)

// artifact reads an artifact. It returns nil when the artifact is no longer stored. It also returns nil when the artifact is larger than
// its result says and exceeds the limit for all media of a turn. The message then contains only the name of the artifact.
func (s *Service) artifact(ctx context.Context, p tool.Principal, id, name string) (data []byte, err error) {
	for {
		part, err := s.engine.ReadArtifact(ctx, p, id, name, int64(len(data)), pieceSize)
		var refusal *call.Refusal
		if errors.As(err, &refusal) && refusal.Kind == call.NotFound {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if data = append(data, part.Bytes...); len(data) > maxMedia {
			return nil, nil
		}
		if part.EOF || len(part.Bytes) == 0 {
			return data, nil
		}
	}
}

func batchOf(t *turn.Turn, p tool.Principal, r *Request) (spec call.BatchSpec, err error) {
	spec = call.BatchSpec{ID: batchID(r.ID), BatchOptions: r.BatchOptions}
	spec.Identity = t.Identity(p.Subject, r.Call.OnBehalfOf, r.Call.Run.ID, r.Call.Run.Thread, r.BatchOptions)
	if spec.Turn, err = json.Marshal(t); err != nil {
		return spec, err
	}
	for i := range t.Calls {
		from, c := &t.Calls[i], r.Call
		c.Tool, c.Arguments, c.ModelCallID, c.ModelReason = from.Tool(), from.Arguments, from.ModelCallID, from.Text
		c.ID = callID(p.Namespace, r.Call.Run.Thread, r.ID, from.Index)
		c.Turn = call.TurnCall{Strict: t.Strict, Truncated: from.Truncated}
		spec.Calls = append(spec.Calls, c)
	}
	return spec, nil
}

func batchID(turnID string) string { return derived("toold.turn.batch.v1", turnID) }

func callID(namespace, thread, turnID string, index int) string {
	return derived("toold.turn.call.v1", namespace, thread, turnID, strconv.Itoa(index))
}

// derived returns an id that depends on the parts alone.
func derived(parts ...string) string {
	var b []byte
	for _, part := range parts {
		b = tool.AppendQuoted(append(b, ','), part)
	}
	sum := sha256.Sum256(b)
	return "turn-" + hex.EncodeToString(sum[:20])
}

func ids(calls []call.Spec) (ids []string) {
	for i := range calls {
		ids = append(ids, calls[i].ID)
	}
	return ids
}

func started(t *turn.Turn, batch string, ids []string) *call.TurnStarted {
	out := &call.TurnStarted{BatchID: batch}
	for i := range t.Calls {
		c := &t.Calls[i]
		out.Calls = append(out.Calls, call.TurnMember{Index: c.Index, CallID: ids[i], ModelCallID: c.ModelCallID, Tool: c.Tool()})
	}
	return out
}

// finished returns the last frame of a turn. b is nil when the turn has no call for toold.
func finished(t *turn.Turn, b *call.BatchFinished) *call.TurnFinished {
	out := &call.TurnFinished{}
	for _, n := range t.NotHandled {
		out.NotHandled = append(out.NotHandled, call.TurnOther{Index: n.Index, ID: n.ID, Type: n.Type})
	}
	if b != nil {
		out.Open = b.Open
		out.RunBlocked = slices.ContainsFunc(b.Calls, func(c *call.Call) bool {
			return c.Result != nil && c.Result.Error != nil && c.Result.Error.TerminateRun
		})
	}
	return out
}

// refused changes a refusal of the batch or its calls so that it names the turn. It does not change other refusals, such as a refusal of
// the run.
func refused(err error, id string) error {
	var refusal *call.Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	switch refusal.Reason {
	case "BATCH_ID_REUSED":
		return call.Refuse(call.AlreadyExists, "TURN_ID_REUSED", "turn_id %q belongs to a turn with other calls or options; ids are never used twice", id)
	case "BATCH_EXPIRED":
		return call.Refuse(call.FailedPrecondition, "TURN_EXPIRED", "turn %q ended long ago and its record is gone; use a new turn_id", id)
	case "BATCH_NOT_FOUND", "CALL_NOT_FOUND":
		return call.Refuse(call.NotFound, "TURN_NOT_FOUND", "there is no turn %q", id)
	}
	return err
}

// A stream has the frames of a turn.
type stream struct {
	id     string      // id of the turn
	batch  call.Stream // nil when all frames are in next
	next   []call.Frame
	finish func(context.Context, *call.BatchFinished) ([]call.Frame, error)
}

// Next implements [call.Stream].
func (s *stream) Next(ctx context.Context) (call.Frame, error) {
	if len(s.next) > 0 {
		f := s.next[0]
		s.next = s.next[1:]
		return f, nil
	}
	if s.batch == nil {
		return call.Frame{}, io.EOF
	}
	f, err := s.batch.Next(ctx)
	if err == nil && f.BatchFinished != nil {
		s.next, err = s.finish(ctx, f.BatchFinished)
		for i := range s.next {
			s.next[i].Cursor = f.Cursor
		}
	}
	return f, refused(err, s.id)
}

// Cursor implements [call.Stream].
func (s *stream) Cursor() string {
	if s.batch == nil {
		return ""
	}
	return s.batch.Cursor()
}

// Close implements [call.Stream].
func (s *stream) Close() {
	if s.batch != nil {
		s.batch.Close()
	}
}
