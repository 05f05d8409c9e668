package lifecycle

import (
	"slices"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// notShown stands for what a filter that failed did not look at.
const notShown = "(not shown: a filter failed)"

// scrub lets the filters that can do so look at what is stored and told beside events. It reports false when one of them
// failed: then nothing of it may be kept.
func (p *pipeline) scrub(look func(hook.Scrubber)) bool {
	clean := true
	for i := range p.hooks.Filter {
		entry := &p.hooks.Filter[i]
		s, ok := entry.Hook.(hook.Scrubber)
		if !ok || !entry.Match.Holds(p.in) {
			continue
		}
		if err := hook.Safely(func() error { look(s); return nil }); err != nil {
			p.l.e.FilterFailed(entry.Name, p.l.key.ID, err)
			clean = false
		}
	}
	return clean
}

func (p *pipeline) scrubText(text string) string {
	if text == "" || p.scrub(func(s hook.Scrubber) { text = s.Text(text) }) {
		return text
	}
	return notShown
}

// makeSeen makes the input for filters of a call that ended before it had one.
func (p *pipeline) makeSeen() {
	if p.in == nil {
		p.in = newInput(p.l.peek(), p.def)
	}
}

// forOperators returns what the caller reads of an error inside the daemon, a hook or a tool: an id under which the log has the text.
// A caller with the role operator reads the text itself.
func (p *pipeline) forOperators(text string) string {
	if text == "" || p.l == nil {
		return ""
	}
	if p.hooks.scrubs {
		p.makeSeen()
		text = p.scrubText(text)
	}
	if p.l.peek().Caller.HasRole("operator") {
		return text
	}
	id := newID()
	p.l.e.log.Warn("error whose caller gets this id", zap.String("id", id), zap.String("call_id", p.l.key.ID), zap.String("error_text", text))
	return "the log has the cause under the id " + id
}

// scrubError looks at why a call that is only described would not run; of one that runs its end is an event, which filters see.
func (p *pipeline) scrubError(e *tool.Error) *tool.Error {
	if !p.hooks.scrubs {
		return e
	}
	p.makeSeen()
	r := &tool.Result{Status: tool.StatusError, Error: e}
	if p.scrub(func(s hook.Scrubber) { r = s.Result(r) }) {
		return r.Error
	}
	return &tool.Error{Code: e.Code, Message: notShown}
}

// scrubDescription looks at what a tool says of a call. Its basis stays: the tool gets it back.
func (p *pipeline) scrubDescription(d tool.Description) tool.Description {
	clean := p.scrub(func(s hook.Scrubber) {
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
		return tool.Description{Kind: d.Kind, Title: notShown, Basis: d.Basis, Degraded: true}
	}
	return d
}

// scrubTicket looks at a question before its digest is made, so that what is shown is what was digested.
func (p *pipeline) scrubTicket(t *tool.Ticket) {
	clean := p.scrub(func(s hook.Scrubber) {
		t.Message = s.Text(t.Message)
		if len(t.Parameters) > 0 {
			t.Parameters = []byte(s.JSON(string(t.Parameters)))
		}
	})
	if !clean {
		t.Message, t.Parameters = notShown, nil
	}
}
