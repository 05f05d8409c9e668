package calllog

import (
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// Readable returns s with invalid UTF-8 replaced. Protobuf rejects invalid UTF-8: without Readable, one such string from a tool would
// prevent all clients from reading the call.
func Readable(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// ReadableResult replaces invalid UTF-8 in all texts of a result. It changes the result in place, so the result must not be shared.
func ReadableResult(r *tool.Result) {
	r.Data, r.Message, r.Display = Readable(r.Data), Readable(r.Message), tool.Display(Readable(string(r.Display)))
	for i := range r.Content {
		readableContent(&r.Content[i])
	}
	for i := range r.Artifacts {
		r.Artifacts[i].Name, r.Artifacts[i].MIMEType = Readable(r.Artifacts[i].Name), Readable(r.Artifacts[i].MIMEType)
	}
	if len(r.Metadata) > 0 {
		clean := make(map[string]string, len(r.Metadata))
		for k, v := range r.Metadata {
			clean[Readable(k)] = Readable(v)
		}
		r.Metadata = clean
	}
	if e := r.Error; e != nil {
		e.Code, e.Reason = tool.Code(Readable(string(e.Code))), Readable(e.Reason)
		e.Message, e.DeveloperMessage = Readable(e.Message), Readable(e.DeveloperMessage)
		for i := range e.Violations {
			e.Violations[i] = tool.Violation{Field: Readable(e.Violations[i].Field), Description: Readable(e.Violations[i].Description)}
		}
	}
}

func readableContent(c *tool.Content) {
	c.Type = tool.ContentType(Readable(string(c.Type)))
	c.Text, c.MIMEType, c.URI = Readable(c.Text), Readable(c.MIMEType), Readable(c.URI)
	c.Artifact, c.Name = Readable(c.Artifact), Readable(c.Name)
}

// AppendReadable appends the progress and the activities in events to list, with invalid UTF-8 replaced.
func AppendReadable(list, events []call.Event) []call.Event {
	for _, e := range events {
		e = call.Event{Type: e.Type, Progress: e.Progress, Activity: e.Activity}
		if e.Progress != nil {
			p := *e.Progress
			p.Message, e.Progress = Readable(p.Message), &p
		}
		if a := e.Activity; a != nil {
			e.Activity = &call.Activity{ID: Readable(a.ID), Type: Readable(a.Type), Content: a.Content, Patch: a.Patch}
		}
		list = append(list, e)
	}
	return list
}

// ReadableDescription replaces invalid UTF-8 in all texts of a description.
func ReadableDescription(d *tool.Description) {
	d.Kind, d.Title, d.Basis = tool.Kind(Readable(string(d.Kind))), Readable(d.Title), Readable(d.Basis)
	for i := range d.Locations {
		d.Locations[i].Path = Readable(d.Locations[i].Path)
	}
	for i := range d.Preview {
		readableContent(&d.Preview[i])
	}
	for i := range d.Notes {
		d.Notes[i] = Readable(d.Notes[i])
	}
	for i := range d.Command {
		p := &d.Command[i]
		p.Text, p.Reason = Readable(p.Text), Readable(p.Reason)
	}
}
