package hooks

import (
	"slices"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// NotShown replaces text that a filter could not check because it failed.
const NotShown = "(not shown: a filter failed)"

// A Scrubber applies the filters that implement [hook.Scrubber]. It filters data of a call that is stored and published outside its events.
type Scrubber struct {
	Set    *Set
	In     *hook.Input
	Failed func(hook string, err error)
}

// Scrub invokes look with each filter that applies. It returns false when a filter failed; the caller must then not use the data.
func (p *Scrubber) Scrub(look func(hook.Scrubber)) bool {
	clean := true
	for i := range p.Set.Filter {
		entry := &p.Set.Filter[i]
		s, ok := entry.Hook.(hook.Scrubber)
		if !ok || !entry.Match.Holds(p.In) {
			continue
		}
		if err := hook.Safely(func() error { look(s); return nil }); err != nil {
			p.Failed(entry.Name, err)
			clean = false
		}
	}
	return clean
}

// Text returns the filtered text, or [NotShown] when a filter failed.
func (p *Scrubber) Text(text string) string {
	if text == "" || p.Scrub(func(s hook.Scrubber) { text = s.Text(text) }) {
		return text
	}
	return NotShown
}

// Error filters the error of a preview. The error of a call that runs is part of an event, so the event filters check it.
func (p *Scrubber) Error(e *tool.Error) *tool.Error {
	r := &tool.Result{Status: tool.StatusError, Error: e}
	if p.Scrub(func(s hook.Scrubber) { r = s.Result(r) }) {
		return r.Error
	}
	return &tool.Error{Code: e.Code, Message: NotShown}
}

// Description filters a tool's description of a call. It does not filter the basis, because the tool needs its own basis unchanged later.
func (p *Scrubber) Description(d tool.Description) tool.Description {
	clean := p.Scrub(func(s hook.Scrubber) {
		d.Title = s.Text(d.Title)
		d.Locations, d.Notes = slices.Clone(d.Locations), slices.Clone(d.Notes) // Clone the slices, because the tool may share them between calls.
		for i := range d.Locations {
			d.Locations[i].Path = s.Text(d.Locations[i].Path)
		}
		for i := range d.Notes {
			d.Notes[i] = s.Text(d.Notes[i])
		}
		d.Command = slices.Clone(d.Command)
		for i := range d.Command {
			d.Command[i].Text, d.Command[i].Reason = s.Text(d.Command[i].Text), s.Text(d.Command[i].Reason)
		}
		d.Preview = s.Contents(d.Preview)
	})
	if !clean {
		return tool.Description{Kind: d.Kind, Title: NotShown, Basis: d.Basis, Degraded: true}
	}
	return d
}

// Ticket filters a question before its digest is computed, so that the digest covers the text that people see.
func (p *Scrubber) Ticket(t *tool.Ticket) {
	clean := p.Scrub(func(s hook.Scrubber) {
		t.Message = s.Text(t.Message)
		if len(t.Parameters) > 0 {
			t.Parameters = []byte(s.JSON(string(t.Parameters)))
		}
	})
	if !clean {
		t.Message, t.Parameters = NotShown, nil
	}
}
