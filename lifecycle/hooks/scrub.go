package hooks

import (
	"slices"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// NotShown replaces what a filter that failed did not look at.
const NotShown = "(not shown: a filter failed)"

// A Scrubber lets the filters that can do so look at what is stored and published beside the events of a call.
type Scrubber struct {
	Set    *Set
	In     *hook.Input
	Failed func(hook string, err error)
}

// Scrub reports false when a filter failed: then nothing of what it looked at may be kept.
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

// Text returns a text as filters leave it.
func (p *Scrubber) Text(text string) string {
	if text == "" || p.Scrub(func(s hook.Scrubber) { text = s.Text(text) }) {
		return text
	}
	return NotShown
}

// Error looks at why a call that is only described would not run. The end of a call that runs is an event, which filters see.
func (p *Scrubber) Error(e *tool.Error) *tool.Error {
	r := &tool.Result{Status: tool.StatusError, Error: e}
	if p.Scrub(func(s hook.Scrubber) { r = s.Result(r) }) {
		return r.Error
	}
	return &tool.Error{Code: e.Code, Message: NotShown}
}

// Description looks at what a tool says of a call. Its basis stays: the tool gets it back.
func (p *Scrubber) Description(d tool.Description) tool.Description {
	clean := p.Scrub(func(s hook.Scrubber) {
		d.Title = s.Text(d.Title)
		d.Locations, d.Notes = slices.Clone(d.Locations), slices.Clone(d.Notes) // a tool may show the same to all
		for i := range d.Locations {
			d.Locations[i].Path = s.Text(d.Locations[i].Path)
		}
		for i := range d.Notes {
			d.Notes[i] = s.Text(d.Notes[i])
		}
		d.Preview = s.Contents(d.Preview)
	})
	if !clean {
		return tool.Description{Kind: d.Kind, Title: NotShown, Basis: d.Basis, Degraded: true}
	}
	return d
}

// Ticket looks at a question before its digest is made, so that what is shown is what was digested.
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
