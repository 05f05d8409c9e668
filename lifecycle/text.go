package lifecycle

import (
	"strings"

	"github.com/toold-dev/toold/tool"
)

// readable returns a text without bytes that are not UTF-8: the wire refuses them, and one such string from a tool would
// break every reader of its call.
func readable(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// readableResult makes all texts of a result readable. The result is the engine's own copy.
func readableResult(r *tool.Result) {
	r.Data, r.Message, r.Display = readable(r.Data), readable(r.Message), tool.Display(readable(string(r.Display)))
	for i := range r.Content {
		readableContent(&r.Content[i])
	}
	for i := range r.Artifacts {
		r.Artifacts[i].Name, r.Artifacts[i].MIMEType = readable(r.Artifacts[i].Name), readable(r.Artifacts[i].MIMEType)
	}
	if len(r.Metadata) > 0 {
		clean := make(map[string]string, len(r.Metadata))
		for k, v := range r.Metadata {
			clean[readable(k)] = readable(v)
		}
		r.Metadata = clean
	}
	if e := r.Error; e != nil {
		e.Code, e.Reason = tool.Code(readable(string(e.Code))), readable(e.Reason)
		e.Message, e.DeveloperMessage = readable(e.Message), readable(e.DeveloperMessage)
		for i := range e.Violations {
			e.Violations[i] = tool.Violation{Field: readable(e.Violations[i].Field), Description: readable(e.Violations[i].Description)}
		}
	}
}

func readableContent(c *tool.Content) {
	c.Type = tool.ContentType(readable(string(c.Type)))
	c.Text, c.MIMEType, c.URI = readable(c.Text), readable(c.MIMEType), readable(c.URI)
	c.Artifact, c.Name = readable(c.Artifact), readable(c.Name)
}

// readableDescription does so for what a tool says of a call.
func readableDescription(d *tool.Description) {
	d.Kind, d.Title, d.Basis = tool.Kind(readable(string(d.Kind))), readable(d.Title), readable(d.Basis)
	for i := range d.Locations {
		d.Locations[i].Path = readable(d.Locations[i].Path)
	}
	for i := range d.Preview {
		readableContent(&d.Preview[i])
	}
	for i := range d.Notes {
		d.Notes[i] = readable(d.Notes[i])
	}
}
