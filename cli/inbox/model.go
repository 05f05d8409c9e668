package inbox

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// mode determines what the keys do.
type mode int

const (
	choosing   mode = iota // the list, with the chosen ticket below it
	reading                // only the ticket
	helping                // the help for the keys
	confirming             // asks yes or no for an approval
	reasoning              // asks for the reason of a refusal
	answering              // asks for the fields of an answer
	keeping                // asks for the scope in which to keep an approval
)

// request is the action that a pressed key requests from the inbox.
type request int

const (
	nothing request = iota
	quit
	refresh
	edit   // open the arguments, or an answer, in an editor
	decide // send model.decision for the chosen entry
	claim  // say that the user looks at the chosen entry
)

// entry is one suspended call in the list.
type entry struct {
	call    *tooldv1.Call
	settled bool // the call no longer waits, and this inbox did not decide it; it stays listed while it is chosen
	sent    bool // a decision of this inbox is on its way to the daemon
	seen    int  // number of ticket lines that were shown
	lines   int  // number of ticket lines
}

func (e *entry) id() string { return e.call.GetSuspension().GetSuspensionId() }

// model holds the state of the screen, and changes it when the user presses a key. It performs no I/O.
type model struct {
	view          show.View
	width, height int
	entries       []*entry
	more          bool // the daemon has more suspended calls than are listed
	loaded        bool
	at            int
	scroll        int // first visible line of the ticket
	mode          mode
	behind        mode // mode to restore after a question
	input         string
	form          *form
	arguments     string // edited arguments, or an edited answer, awaiting confirmation
	decision      *tooldv1.Decision
	keeps         string            // remember option of the ticket for which the approval is kept
	decided       map[string]string // key: suspension decided here; value: "", or the decision id of a vote, because an edit can void the vote
	count         int               // number of decisions made here
	message       string
	alarm         bool
	page          int // number of ticket lines that fit
}

func newModel() *model { return &model{decided: map[string]string{}} }

// chosen returns the entry that keys act on, or nil when the list is empty.
func (m *model) chosen() *entry {
	if m.at < len(m.entries) {
		return m.entries[m.at]
	}
	return nil
}

func (m *model) say(text string, alarm bool) { m.message, m.alarm = text, alarm }

// list replaces the list of suspended calls. The chosen entry stays chosen even if it no longer waits, so that a key never acts on a
// different call.
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
			e = &entry{}
		}
		e.call = c // The question is the same; votes and claim may have changed.
		e.settled = false
		next = append(next, e)
	}
	m.more, m.loaded = more, true
	at := slices.Index(next, chosen)
	if chosen != nil && at < 0 && !m.isDecided(chosen.call.GetSuspension()) {
		if !chosen.settled && !chosen.sent {
			m.say("another person decided this, or it expired", true)
			chosen.settled = true
		}
		at = min(m.at, len(next))
		next = slices.Insert(next, at, chosen)
	}
	m.entries = next
	if m.at = at; at < 0 {
		m.at = 0
	}
}

// isDecided reports whether this inbox has nothing left to decide about s. If another approver's edit voided our vote, the user can vote
// again.
func (m *model) isDecided(s *tooldv1.Suspension) bool {
	vote, ok := m.decided[s.GetSuspensionId()]
	return ok && (vote == "" || slices.ContainsFunc(s.GetVotes(), func(v *tooldv1.Vote) bool { return v.GetDecisionId() == vote }))
}

// answered records that the daemon accepted a decision.
func (m *model) answered(e *entry, d *tooldv1.Decision) {
	m.decided[e.id()] = ""
	if show.Votes(e.call.GetSuspension()) != "" && d.GetAction() == tooldv1.DecisionAction_DECISION_ACTION_RESUME {
		m.decided[e.id()] = d.GetDecisionId()
	}
	m.count++
	m.remove(e)
}

// remove removes an entry that was decided here. If the entry was chosen, the next entry becomes chosen.
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

// press handles one key.
func (m *model) press(k key) request {
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

func (m *model) command(k key) request {
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
	case "c":
		if e := m.chosen(); e != nil && !e.settled {
			return claim
		}
	}
	return nothing
}

func (m *model) move(to int) {
	to = max(min(to, len(m.entries)-1), 0)
	if e := m.chosen(); e != nil && e.settled && to != m.at {
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

// isQuestion reports whether an answer needs data beyond approve or decline.
func isQuestion(s *tooldv1.Suspension) bool {
	return s.GetResponseSchema() != "" || s.GetResumeMode() != tooldv1.ResumeMode_RESUME_MODE_REPLAY_TOOL_CALL
}

// begin starts an answer to the chosen entry.
func (m *model) begin(letter string) request {
	e := m.chosen()
	switch {
	case e == nil:
		return nothing
	case e.settled:
		m.say("this call is no longer suspended", true)
		return nothing
	case e.sent:
		m.say("the inbox is sending your answer", false)
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

// edited takes the text from the editor. After confirmation the text becomes the approved arguments or the answer.
func (m *model) edited(text string) {
	m.arguments, m.mode, m.scroll = text, confirming, 0
}

func (m *model) confirm(k key) request {
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
		m.cancelQuestion(k)
	}
	return nothing
}

// cancelQuestion leaves a question without a decision if the key means no.
func (m *model) cancelQuestion(k key) {
	if k.text == "n" || k.text == "N" || k.text == "q" || k.name == "escape" || k.name == "enter" {
		m.mode = m.behind
		m.say("nothing was decided", false)
	}
}

// options returns the remember options for the approval that is being confirmed.
func (m *model) options() []*tooldv1.RememberOption {
	s := m.chosen().call.GetSuspension()
	if m.arguments != "" || isQuestion(s) {
		return nil
	}
	return s.GetRememberOptions()[:min(len(s.GetRememberOptions()), 9)]
}

// keep handles the choice of scope. Choosing a scope also approves the call.
func (m *model) keep(k key) request {
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
		m.cancelQuestion(k)
		return nothing
	}
	m.mode = m.behind
	return m.send(&tooldv1.Decision{Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, Remember: r})
}

func (m *model) send(d *tooldv1.Decision) request {
	e := m.chosen()
	if e == nil || e.settled || e.sent { // the call stopped waiting while the user was answering
		m.say("this call is no longer suspended; nothing was decided", true)
		return nothing
	}
	m.decision = d
	return decide
}

// typing handles a key in the input line.
func (m *model) typing(k key) request {
	switch k.name {
	case "":
		m.input += k.text
	case "paste":
		m.input += strings.ToValidUTF8(k.text, "\uFFFD") // escaped when shown
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

// typed handles the end of the input line.
func (m *model) typed() request {
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
