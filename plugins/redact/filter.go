package redact

import (
	"maps"
	"slices"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// Filter implements [hook.Filter].
func (r *Redactor) Filter(*hook.Input) func(call.Event) ([]call.Event, []hook.Record) {
	f := &filter{r: r}
	return func(e call.Event) ([]call.Event, []hook.Record) { return f.pass(e), nil }
}

// A filter redacts the events of one call.
type filter struct {
	r       *Redactor
	streams []stream // ordered by their first output
}

type stream struct {
	name string
	text *Stream
}

// use makes the filter redact the secrets of r, beginning with the next event.
func (f *filter) use(r *Redactor) {
	if r == f.r {
		return
	}
	f.r = r
	for _, s := range f.streams {
		s.text.use(r)
	}
}

func (f *filter) pass(e call.Event) []call.Event {
	switch e.Type {
	case call.EventOutput:
		return f.output(e)
	case call.EventFinished, call.EventSuspended:
		return append(f.rest(e), f.clean(e))
	}
	return []call.Event{f.clean(e)}
}

// output returns the part of a stream that can be published now.
func (f *filter) output(e call.Event) []call.Event {
	i := slices.IndexFunc(f.streams, func(s stream) bool { return s.name == e.Output.Stream })
	if i < 0 {
		i = len(f.streams)
		f.streams = append(f.streams, stream{e.Output.Stream, f.r.Stream()})
	}
	b := f.streams[i].text.Next(e.Output.Bytes)
	if len(b) == 0 {
		return nil
	}
	return []call.Event{withBytes(e, e.Output.Stream, b)}
}

// rest returns the retained ends of all streams. Each stream then starts again.
func (f *filter) rest(last call.Event) (events []call.Event) {
	for _, s := range f.streams {
		if b := s.text.End(); len(b) > 0 {
			events = append(events, withBytes(call.Event{Type: call.EventOutput, Time: last.Time}, s.name, b))
		}
	}
	f.streams = nil
	return events
}

func withBytes(e call.Event, stream string, b []byte) call.Event {
	e.Output = &call.Output{Stream: stream, Length: len(b), Bytes: b}
	return e
}

// clean returns an event without secrets. It does not modify the data that the event points to.
func (f *filter) clean(e call.Event) call.Event {
	r := f.r
	switch {
	case e.Progress != nil:
		p := *e.Progress
		p.Message = r.Text(p.Message)
		e.Progress = &p
	case e.Activity != nil:
		a := *e.Activity
		a.Type, a.Content, a.Patch = r.Text(a.Type), r.JSON(a.Content), r.JSON(a.Patch)
		e.Activity = &a
	case e.Verdict != nil:
		v := *e.Verdict
		v.Reason = r.Text(v.Reason)
		e.Verdict = &v
	case e.Cancel != nil:
		c := *e.Cancel
		c.Reason = r.Text(c.Reason)
		e.Cancel = &c
	case e.Decision != nil: // Redact only the copy in the event: the tool needs the answer unchanged.
		d := *e.Decision
		d.Reason, d.Result = r.Text(d.Reason), r.JSON(d.Result)
		if d.ResultInstead != nil {
			d.ResultInstead = &tool.ResultInstead{Data: r.JSON(d.ResultInstead.Data), Message: r.Text(d.ResultInstead.Message), Error: d.ResultInstead.Error}
		}
		e.Decision = &d
	case e.Outcome != nil && e.Outcome.Result != nil:
		o := *e.Outcome
		o.Result = r.Result(o.Result)
		e.Outcome = &o
	}
	return e
}

// Result returns a result without secrets in data, message, content, errors and metadata.
func (r *Redactor) Result(in *tool.Result) *tool.Result {
	out := *in
	out.Data, out.Message = r.JSON(in.Data), r.Text(in.Message)
	out.Content = r.Contents(in.Content)
	if len(in.Metadata) > 0 {
		out.Metadata = make(map[string]string, len(in.Metadata))
		for _, k := range slices.Sorted(maps.Keys(in.Metadata)) {
			out.Metadata[r.Text(k)] = r.Text(in.Metadata[k])
		}
	}
	if in.Error != nil {
		e := *in.Error
		e.Reason, e.Message, e.DeveloperMessage = r.Text(e.Reason), r.Text(e.Message), r.Text(e.DeveloperMessage)
		e.Violations = slices.Clone(e.Violations)
		for i, v := range e.Violations {
			e.Violations[i] = tool.Violation{Field: r.Text(v.Field), Description: r.Text(v.Description)}
		}
		out.Error = &e
	}
	return &out
}

// Contents redacts texts, URIs, names, and bytes that are text. It does not change other bytes, because that would damage them.
func (r *Redactor) Contents(in []tool.Content) []tool.Content {
	out := slices.Clone(in)
	for i := range out {
		c := &out[i]
		c.Text, c.URI, c.Name = r.Text(c.Text), r.Text(c.URI), r.Text(c.Name)
		c.Data = r.Artifact(c.MIMEType, c.Data)
	}
	return out
}

// Artifact redacts bytes that are a text.
func (r *Redactor) Artifact(mimeType string, b []byte) []byte {
	if len(b) == 0 || !isText(mimeType) {
		return b
	}
	t := r.Stream()
	return append(t.Next(b), t.End()...)
}

// isText reports whether bytes of this type may be a text. It returns true for an unknown type.
func isText(mimeType string) bool {
	for _, binary := range []string{"image/", "audio/", "video/", "font/", "application/pdf", "application/zip", "application/gzip"} {
		if strings.HasPrefix(mimeType, binary) {
			return strings.HasPrefix(mimeType, "image/svg")
		}
	}
	return true
}
