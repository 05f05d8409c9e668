package inbox

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// mode is what keys mean.
type mode int

const (
	choosing   mode = iota // the list, with what is chosen below it
	reading                // the ticket alone
	helping                // the keys explained
	confirming             // yes or no to an approval
	reasoning              // why it is declined
	answering              // the fields of an answer
	keeping                // how far an approval is kept
)

// wish is what a key asks the outside to do.
type wish int

const (
	nothing wish = iota
	quit
	refresh
	edit   // arguments, or an answer, in an editor
	decide // model.decision about model.chosen
)

// entry is one call that waits.
type entry struct {
	call  *tooldv1.Call
	gone  bool // it does not wait any more, and nobody here decided so: it stays while it is looked at
	sent  bool // our answer is on its way
	seen  int  // lines of the ticket that were shown
	lines int  // that it has
}

func (e *entry) id() string { return e.call.GetSuspension().GetSuspensionId() }

// model is what is shown and what keys do to it. It does nothing outside itself.
type model struct {
	view          show.View
	width, height int
	entries       []*entry
	more          bool // there are more than are listed
	loaded        bool
	at            int
	scroll        int // of the ticket
	mode          mode
	behind        mode // to which a question returns
	input         string
	form          *form
	arguments     string // edited, for the approval that is to be confirmed
	decision      *tooldv1.Decision
	keeps         string            // what the approval is kept for, an option of the ticket
	decided       map[string]string // suspensions that were answered here; a vote by its id: it may come to nothing
	count         int               // of those
	message       string
	alarm         bool
	page          int // lines of the ticket that fit
}

func newModel() *model { return &model{decided: map[string]string{}} }

// chosen is the entry that keys act on; nil when there is none.
func (m *model) chosen() *entry {
	if m.at < len(m.entries) {
		return m.entries[m.at]
	}
	return nil
}

func (m *model) say(text string, alarm bool) { m.message, m.alarm = text, alarm }

// list takes what waits now. What is chosen stays chosen, also when it does not wait any more: nobody must hit another
// call because one went away.
func (m *model) list(calls []*tooldv1.Call, more bool) {
	known := map[string]*entry{}
	for _, e := range m.entries {
		known[e.id()] = e
	}
	chosen := m.chosen()
	var next []*entry
	for _, c := range calls {
		id := c.GetSuspension().GetSuspensionId()
		if m.isDecided(c.GetSuspension()) {
			continue
		}
		e := known[id]
		if e == nil {
			e = &entry{call: c}
		}
		e.gone = false
		next = append(next, e)
	}
	m.more, m.loaded = more, true
	at := slices.Index(next, chosen)
	if chosen != nil && at < 0 && !m.isDecided(chosen.call.GetSuspension()) {
		if !chosen.gone && !chosen.sent {
			m.say("somebody else decided this, or it expired", true)
			chosen.gone = true
		}
		at = min(m.at, len(next))
		next = slices.Insert(next, at, chosen)
	}
	m.entries = next
	if m.at = at; at < 0 {
		m.at = 0
	}
}

// isDecided reports whether nothing is left to say here. A vote that somebody's edit has voided can be cast anew.
func (m *model) isDecided(s *tooldv1.Suspension) bool {
	vote, ok := m.decided[s.GetSuspensionId()]
	return ok && (vote == "" || slices.ContainsFunc(s.GetVotes(), func(v *tooldv1.Vote) bool { return v.GetDecisionId() == vote }))
}

// answered notes that a decision was taken.
func (m *model) answered(e *entry, d *tooldv1.Decision) {
	m.decided[e.id()] = ""
	if show.Votes(e.call.GetSuspension()) != "" && d.GetAction() == tooldv1.DecisionAction_DECISION_ACTION_RESUME {
		m.decided[e.id()] = d.GetDecisionId()
	}
	m.count++
	m.remove(e)
}

// remove takes an entry that was decided here out of the list; the next one is chosen.
func (m *model) remove(e *entry) {
	i := slices.Index(m.entries, e)
	if i < 0 {
		return
	}
	m.entries = slices.Delete(m.entries, i, i+1)
	if i < m.at {
		m.at--
	} else if i == m.at {
		m.scroll = 0
		if m.mode != choosing && m.mode != helping {
			m.mode = choosing
		}
	}
	m.at = max(min(m.at, len(m.entries)-1), 0)
}

// press does what a key means.
func (m *model) press(k key) wish {
	if k.name == "ctrl-c" {
		return quit
	}
	if m.tooSmall() {
		return nothing
	}
	switch m.mode {
	case confirming:
		return m.confirm(k)
	case keeping:
		return m.keep(k)
	case reasoning, answering:
		return m.typing(k)
	case helping:
		m.mode = choosing
		return nothing
	}
	return m.command(k)
}

func (m *model) command(k key) wish {
	m.message = ""
	switch k.name + k.text {
	case "q", "escape":
		if m.mode == choosing && k.name == "" {
			return quit
		}
		m.mode = choosing
	case "j", "down":
		m.move(m.at + 1)
	case "k", "up":
		m.move(m.at - 1)
	case "g", "home":
		m.move(0)
	case "G", "end":
		m.move(len(m.entries) - 1)
	case " ", "pagedown", "ctrl-f":
		m.scroll += m.page
	case "b", "pageup", "ctrl-b":
		m.scroll -= m.page
	case "J":
		m.scroll++
	case "K":
		m.scroll--
	case "enter":
		m.scroll = 0
		if m.mode == reading {
			m.mode = choosing
		} else {
			m.mode = reading
		}
	case "?", "h":
		m.mode = helping
	case "r", "ctrl-l":
		return refresh
	case "a", "e", "d":
		return m.begin(k.text)
	}
	return nothing
}

func (m *model) move(to int) {
	to = max(min(to, len(m.entries)-1), 0)
	if e := m.chosen(); e != nil && e.gone && to != m.at {
		m.entries = slices.Delete(m.entries, m.at, m.at+1)
		if to > m.at {
			to--
		}
	}
	if to != m.at {
		m.scroll = 0
	}
	m.at = max(min(to, len(m.entries)-1), 0)
}

// isQuestion reports whether the answer has to say something.
func isQuestion(s *tooldv1.Suspension) bool {
	return s.GetResponseSchema() != "" || s.GetResumeMode() != tooldv1.ResumeMode_RESUME_MODE_REPLAY_TOOL_CALL
}

// begin starts an answer to what is chosen.
func (m *model) begin(letter string) wish {
	e := m.chosen()
	switch {
	case e == nil:
		return nothing
	case e.gone:
		m.say("this does not wait any more", true)
		return nothing
	case e.sent:
		m.say("your answer is on its way", false)
		return nothing
	}
	m.behind, m.input, m.arguments, m.form = m.mode, "", "", nil
	switch letter {
	case "e":
		return edit
	case "d":
		m.mode = reasoning
	case "a":
		m.mode = confirming
		if isQuestion(e.call.GetSuspension()) {
			m.mode, m.form = answering, newForm(e.call.GetSuspension().GetResponseSchema())
		}
	}
	return nothing
}

// edited takes what came out of the editor: it is approved, or sent as the answer, when it is confirmed.
func (m *model) edited(text string) {
	m.arguments, m.mode, m.scroll = text, confirming, 0
}

func (m *model) confirm(k key) wish {
	options := m.options()
	switch i := strings.Index("123456789", k.text); {
	case k.text != "" && i >= 0 && i < len(options):
		m.mode, m.keeps = keeping, options[i].GetOption()
	case k.text == "y" || k.text == "Y":
		m.mode = m.behind
		d := &tooldv1.Decision{Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME}
		if isQuestion(m.chosen().call.GetSuspension()) {
			d.Result = m.arguments
		} else {
			d.Arguments = m.arguments
		}
		return m.send(d)
	default:
		m.refrain(k)
	}
	return nothing
}

// refrain goes back from a question without a decision, when that is what a key means.
func (m *model) refrain(k key) {
	if k.text == "n" || k.text == "N" || k.text == "q" || k.name == "escape" || k.name == "enter" {
		m.mode = m.behind
		m.say("nothing was decided", false)
	}
}

// options are what the approval that is to be confirmed can be kept for.
func (m *model) options() []*tooldv1.RememberOption {
	s := m.chosen().call.GetSuspension()
	if m.arguments != "" || isQuestion(s) {
		return nil
	}
	return s.GetRememberOptions()[:min(len(s.GetRememberOptions()), 9)]
}

// keep takes how far an approval is kept, which is its yes.
func (m *model) keep(k key) wish {
	run := m.chosen().call.GetRun()
	r := &tooldv1.Remember{Option: m.keeps}
	switch {
	case k.text == "r" && run.GetRunId() != "":
		r.Scope = tooldv1.RememberScope_REMEMBER_SCOPE_RUN
	case k.text == "t" && run.GetThreadId() != "":
		r.Scope = tooldv1.RememberScope_REMEMBER_SCOPE_THREAD
	case k.text == "w":
		r.Scope = tooldv1.RememberScope_REMEMBER_SCOPE_NAMESPACE
	default:
		m.refrain(k)
		return nothing
	}
	m.mode = m.behind
	return m.send(&tooldv1.Decision{Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, Remember: r})
}

func (m *model) send(d *tooldv1.Decision) wish {
	e := m.chosen()
	if e == nil || e.gone || e.sent { // it went while it was answered
		m.say("this does not wait any more; nothing was decided", true)
		return nothing
	}
	m.decision = d
	return decide
}

// typing edits the line at the bottom.
func (m *model) typing(k key) wish {
	switch k.name {
	case "":
		m.input += k.text
	case "paste":
		m.input += strings.ToValidUTF8(k.text, "\uFFFD") // what it holds is escaped when it is shown
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(m.input)
		m.input = m.input[:len(m.input)-n]
	case "ctrl-u":
		m.input = ""
	case "ctrl-w":
		m.input = strings.TrimRight(m.input, " ")
		m.input = m.input[:strings.LastIndexByte(m.input, ' ')+1]
	case "escape":
		m.mode = m.behind
		m.say("nothing was decided", false)
	case "enter":
		return m.typed()
	}
	return nothing
}

// typed is the end of the line.
func (m *model) typed() wish {
	if m.mode == reasoning {
		m.mode = m.behind
		return m.send(&tooldv1.Decision{Action: tooldv1.DecisionAction_DECISION_ACTION_CANCEL, Reason: strings.TrimSpace(m.input)})
	}
	complaint, done := m.form.take(m.input)
	if m.form.complaint = complaint; complaint != "" {
		return nothing
	}
	m.input = ""
	if !done {
		return nothing
	}
	m.mode = m.behind
	return m.send(&tooldv1.Decision{Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME})
}
