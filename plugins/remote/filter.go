package remote

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/translate"
)

// Filter implements [hook.Filter]. It panics where FilterOrFail returns an error.
func (h *Hook) Filter(in *hook.Input) func(call.Event) ([]call.Event, []hook.Record) {
	next := h.FilterOrFail(in)
	return func(ev call.Event) ([]call.Event, []hook.Record) {
		events, records, err := next(ev)
		if err != nil {
			panic(err)
		}
		return events, records
	}
}

// FilterOrFail implements [hook.Fallible]. The service gets only progress, activities, output and the end of the call. All other events
// contain stored data with a digest, or words of a person.
func (h *Hook) FilterOrFail(in *hook.Input) func(call.Event) ([]call.Event, []hook.Record, error) {
	f := &filter{hook: h, in: in}
	return func(ev call.Event) ([]call.Event, []hook.Record, error) {
		events, err := f.pass(ev)
		return events, nil, err
	}
}

// filter filters one call through a service.
type filter struct {
	hook    *Hook
	in      *hook.Input
	stream  *stream // nil when no stream is open
	begun   bool    // the service knows the call
	outputs []string
}

// A stream holds resources that must be released even when the filter is dropped before the call ends.
type stream struct {
	grpc.BidiStreamingClient[tooldv1.FilterRequest, tooldv1.FilterResponse]
	cancel context.CancelFunc
}

func (f *filter) pass(ev call.Event) ([]call.Event, error) {
	step := stepOf(&ev)
	if step == nil && ev.Type != call.EventSuspended {
		return []call.Event{ev}, nil
	}
	if step == nil && f.stream == nil {
		return []call.Event{ev}, nil
	}
	if step == nil {
		step = &tooldv1.FilterRequest{Step: &tooldv1.FilterRequest_Flush{Flush: &tooldv1.FilterFlush{}}}
	}
	if o := ev.Output; o != nil && !slices.Contains(f.outputs, o.Stream) {
		f.outputs = append(f.outputs, o.Stream)
	}
	var kept []call.Event
	ctx, stop := context.WithTimeout(context.Background(), f.hook.cfg.Deadline)
	defer stop()
	err := f.hook.line.Ask(ctx, func(context.Context) error {
		answer, err := f.exchange(step)
		if err == nil {
			kept, err = f.events(&ev, answer)
		}
		return err
	})
	if over := ev.Type == call.EventSuspended || ev.Outcome != nil; (err != nil || over) && f.stream != nil {
		f.stream.cancel()
		f.stream = nil
	}
	if err != nil {
		return nil, err
	}
	if ev.Type == call.EventSuspended {
		kept = append(kept, ev)
	}
	return kept, nil
}

var errSlow = errors.New("no answer within the deadline")

// exchange sends one step and waits for its answer. At the deadline it gives up a service that accepts no stream, does not read or does not
// answer.
func (f *filter) exchange(step *tooldv1.FilterRequest) (answer *tooldv1.FilterResponse, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	if f.stream != nil {
		cancel()
		cancel = f.stream.cancel
	}
	late := time.AfterFunc(f.hook.cfg.Deadline, cancel)
	defer func() {
		if !late.Stop() && err != nil {
			err = errSlow
		}
	}()
	if f.stream == nil {
		if err := f.open(ctx, cancel); err != nil {
			return nil, err
		}
	}
	if err := f.hook.own(ctx); err != nil {
		return nil, err
	}
	if !f.begun {
		input, err := f.hook.input(f.in)
		if err != nil {
			return nil, err
		}
		input.Arguments, input.IdempotencyKey = "", "" // the arguments are not parsed yet
		if err := f.stream.Send(&tooldv1.FilterRequest{Step: &tooldv1.FilterRequest_Begin{Begin: input}}); err != nil {
			return nil, f.broken(err)
		}
		f.begun = true
	}
	if err := f.stream.Send(step); err != nil {
		return nil, f.broken(err)
	}
	answer, err = f.stream.Recv()
	if err != nil {
		return nil, plain(err)
	}
	return answer, known(answer)
}

// broken returns the reason why the stream accepts no message. err, the stream's own error, says only that it has ended.
func (f *filter) broken(err error) error {
	if _, why := f.stream.Recv(); why != nil {
		return plain(why)
	}
	return plain(err)
}

func (f *filter) open(ctx context.Context, cancel context.CancelFunc) error {
	s, err := f.hook.client.Filter(ctx)
	if err != nil {
		cancel()
		return plain(err)
	}
	f.stream, f.begun = &stream{s, cancel}, false
	runtime.AddCleanup(f.stream, func(cancel context.CancelFunc) { cancel() }, cancel)
	return nil
}

// stepOf returns the message for an event that the service sees, or nil.
func stepOf(ev *call.Event) *tooldv1.FilterRequest {
	if ev.Progress == nil && ev.Activity == nil && ev.Output == nil && ev.Outcome == nil {
		return nil
	}
	out := translate.FromEvent("", ev)
	if o := out.GetOutput(); o != nil { // The engine sets both fields after the filters.
		o.Offset, o.Length = 0, int64(len(o.GetData()))
	}
	if f := out.GetFinished(); f != nil {
		f.Result.ModelText = ev.Outcome.Result.ModelText()
	}
	return &tooldv1.FilterRequest{Step: &tooldv1.FilterRequest_Event{Event: out}}
}

// events returns the events that the service released for ev.
func (f *filter) events(ev *call.Event, answer *tooldv1.FilterResponse) ([]call.Event, error) {
	list := answer.GetEvents()
	var out []call.Event
	for i, e := range list {
		next := call.Event{Time: ev.Time}
		if r := e.GetFinished(); r != nil {
			if ev.Outcome == nil || i != len(list)-1 {
				return nil, protocol("finished must be the last event of the answer to finished, and only of that answer")
			}
			result, err := changed(ev.Outcome.Result, r)
			if err != nil {
				return nil, err
			}
			o := *ev.Outcome
			o.Result = result
			next = *ev
			next.Outcome = &o
		} else if err := f.report(&next, e); err != nil {
			return nil, err
		}
		out = append(out, next)
	}
	if ev.Outcome != nil && (len(out) == 0 || out[len(out)-1].Outcome == nil) {
		return nil, protocol("the answer to finished has no finished event")
	}
	return out, nil
}

// report converts an event that the service released during the call.
func (f *filter) report(ev *call.Event, e *tooldv1.FilterEvent) error {
	switch e := e.GetEvent().(type) {
	case *tooldv1.FilterEvent_Progress:
		p := translate.ToProgress(e.Progress)
		ev.Type, ev.Progress = call.EventProgress, &p
		if ev.Progress.Status == "" {
			return protocol("progress without a status")
		}
	case *tooldv1.FilterEvent_ActivitySnapshot:
		a := e.ActivitySnapshot
		ev.Type, ev.Activity = call.EventActivitySnapshot, &call.Activity{ID: a.GetActivityId(), Type: a.GetActivityType(), Content: a.GetContent()}
		if _, err := call.ParseJSON(a.GetContent(), 0); err != nil {
			return protocol("activity: %v", err)
		}
	case *tooldv1.FilterEvent_ActivityDelta:
		a := e.ActivityDelta
		ev.Type, ev.Activity = call.EventActivityDelta, &call.Activity{ID: a.GetActivityId(), Patch: a.GetPatch()}
		if _, err := call.ParseJSON(a.GetPatch(), 0); err != nil {
			return protocol("activity: %v", err)
		}
	case *tooldv1.FilterEvent_Output:
		ev.Type, ev.Output = call.EventOutput, &call.Output{Stream: e.Output.GetStream(), Bytes: e.Output.GetData()}
		if !slices.Contains(f.outputs, ev.Output.Stream) {
			return protocol("output of the unknown stream %q", ev.Output.Stream)
		}
	default:
		return protocol("an event without a kind")
	}
	return nil
}
