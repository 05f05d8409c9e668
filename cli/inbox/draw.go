package inbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toold-dev/toold/cli/show"
)

const (
	leastWidth  = 40
	leastHeight = 8
)

// tooSmall reports whether the terminal is too small to read a ticket. Decisions are then disabled.
func (m *model) tooSmall() bool { return m.width < leastWidth || m.height < leastHeight }

// A frame is the content of the screen.
type frame struct {
	lines       []string
	row, column int // cursor position; a negative row hides the cursor
}

// draw lays out the screen. No line is wider than the terminal.
func (m *model) draw() frame {
	f := frame{row: -1}
	if m.tooSmall() {
		f.lines = []string{show.Short("toold: too small", m.width)}
		return f.filled(m.height)
	}
	bottom := m.bottom(&f)
	room := m.height - 1 - len(bottom)
	f.lines = append(f.lines, m.title())
	switch {
	case m.mode == helping:
		f.lines = append(f.lines, m.help(room)...)
	case len(m.entries) == 0:
		f.lines = append(f.lines, m.empty()...)
	case m.behindMode() == reading || room < 6:
		f.lines = append(f.lines, m.ticket(room)...)
	default:
		rows := min(len(m.entries), max(3, room/3))
		f.lines = append(f.lines, m.rows(rows)...)
		f.lines = append(f.lines, m.view.Dim(strings.Repeat("─", m.width)))
		f.lines = append(f.lines, m.ticket(room-rows-1)...)
	}
	f.lines = f.filled(m.height - len(bottom)).lines
	if f.row >= 0 {
		f.row += len(f.lines)
	}
	f.lines = append(f.lines, bottom...)
	return f
}

func (f frame) filled(height int) frame {
	f.lines = f.lines[:min(len(f.lines), max(height, 0))]
	for len(f.lines) < height {
		f.lines = append(f.lines, "")
	}
	return f
}

// behindMode returns the mode whose view stays visible while a question is asked.
func (m *model) behindMode() mode {
	if m.mode >= confirming {
		return m.behind
	}
	return m.mode
}

func (m *model) title() string {
	text := "toold inbox"
	waits := fmt.Sprintf("  %d wait", len(m.entries))
	switch {
	case !m.loaded:
		waits = "  …"
	case len(m.entries) == 1:
		waits = "  1 waits"
	case m.more:
		waits = fmt.Sprintf("  the oldest %d of those that wait", len(m.entries))
	}
	if m.count > 0 {
		waits += fmt.Sprintf(", %d decided here", m.count)
	}
	return m.view.Marked(text) + show.Short(waits, m.width-len(text))
}

// empty returns the text for an empty list.
func (m *model) empty() []string {
	if !m.loaded {
		return nil
	}
	return show.Wrap("\nNothing waits for a decision. New questions appear here.", m.width)
}

// rows returns n lines of the list. The chosen entry is among them.
func (m *model) rows(n int) (lines []string) {
	first := max(min(m.at-n/2, len(m.entries)-n), 0)
	for i := first; i < first+n; i++ {
		e, mark := m.entries[i], "  "
		if i == m.at {
			mark = m.view.Marked("▸ ")
		}
		line := m.view.InboxLine(e.call, m.width-2)
		switch {
		case e.settled:
			line = m.view.Dim(show.Short("gone      "+show.Line(e.call.GetTool()), m.width-2))
		case e.sent:
			line = m.view.Dim(show.Short("sent      "+show.Line(e.call.GetTool()), m.width-2))
		}
		lines = append(lines, mark+line)
	}
	return lines
}

// ticket returns the lines of the chosen ticket from the scroll position on, at most room lines.
func (m *model) ticket(room int) []string {
	e := m.chosen()
	text := m.view.Question(e.call, e.call.GetSuspension())
	if m.arguments != "" && m.mode == confirming {
		text = m.view.Marked("Instead, as you edited it") + " (" + show.ArgumentsSize(m.arguments) + ")\n" + m.view.Arguments(m.arguments)
	}
	lines := show.Wrap(strings.TrimSuffix(text, "\n"), m.width)
	m.page = max(room-1, 1)
	m.scroll = max(min(m.scroll, len(lines)-m.page), 0)
	end := min(m.scroll+m.page, len(lines))
	if m.arguments == "" {
		e.lines, e.seen = len(lines), max(e.seen, end)
	}
	shown := append([]string(nil), lines[m.scroll:end]...)
	if end < len(lines) || m.scroll > 0 {
		for len(shown) < m.page {
			shown = append(shown, "")
		}
		shown = append(shown, m.view.Dim(show.Short(fmt.Sprintf("── lines %d to %d of %d: space and b turn the page ──", m.scroll+1, end, len(lines)), m.width)))
	}
	return shown
}

// bottom returns the last lines of the screen: a question or the last message, and the keys. It sets the cursor in f, relative to the first
// of these lines.
func (m *model) bottom(f *frame) (lines []string) {
	switch m.mode {
	case confirming:
		lines = append(lines, m.messageLines()...)
		lines = append(lines, m.view.Marked(show.Short(m.question(), m.width)))
		for i, o := range m.options()[:min(len(m.options()), m.height/4)] {
			lines = append(lines, show.Short(fmt.Sprintf("  %d  yes, and for a day also %s", i+1, show.OptionTitle(o)), m.width))
		}
	case keeping:
		lines = append(lines, m.view.Marked(show.Short("Approve and remember: for which calls?", m.width)))
		for _, scope := range m.keepScopes() {
			lines = append(lines, show.Short("  "+scope[0]+"  "+scope[1], m.width))
		}
	case reasoning:
		lines = append(lines, m.view.Marked(show.Short("Decline "+show.Title(m.chosen().call.GetSuspension())+": why? The model reads it.", m.width)))
		lines = append(lines, m.line("reason: ", f, len(lines)))
	case answering:
		lines = m.fieldLines(f)
	default:
		lines = append(lines, m.messageLines()...)
	}
	return append(lines, m.keys())
}

func (m *model) messageLines() []string {
	text := show.Short(show.Line(m.message), m.width)
	if m.alarm {
		text = m.view.Alarm(text)
	}
	return []string{text}
}

// keepScopes returns the scopes in which an approval can be kept, each with the key to press for it.
func (m *model) keepScopes() (all [][2]string) {
	run := m.chosen().call.GetRun()
	if id := run.GetRunId(); id != "" {
		all = append(all, [2]string{"r", "calls of the run " + show.Line(id)})
	}
	if id := run.GetThreadId(); id != "" {
		all = append(all, [2]string{"t", "calls of the thread " + show.Line(id)})
	}
	return append(all, [2]string{"w", "calls of the whole namespace (operators)"})
}

func (m *model) question() string {
	e := m.chosen()
	text := "Approve " + show.Title(e.call.GetSuspension()) + "?"
	switch {
	case m.arguments != "" && isQuestion(e.call.GetSuspension()):
		text = "Send this answer?"
	case m.arguments != "":
		text = "Approve with these arguments?"
	case e.seen < e.lines:
		text = fmt.Sprintf("%d lines of it were not shown. %s", e.lines-e.seen, text)
	}
	if votes := show.Votes(e.call.GetSuspension()); votes != "" {
		text = votes + ". " + text
	}
	return text
}

// fieldLines asks for the next field of an answer.
func (m *model) fieldLines(f *frame) (lines []string) {
	s, now := m.chosen().call.GetSuspension(), m.form.field()
	about := show.Title(s)
	if s.GetMessage() != "" {
		about = show.Line(s.GetMessage())
	}
	lines = append(lines, m.view.Marked(show.Short(about, m.width)))
	if now.title != "" {
		lines = append(lines, show.Short(show.Line(now.title), m.width))
	}
	most := max(m.height/2-len(lines), 1)
	for i, option := range now.options[:min(len(now.options), most)] {
		lines = append(lines, show.Short(fmt.Sprintf("  %d  %s", i+1, show.Line(option)), m.width))
	}
	if m.form.complaint != "" {
		lines = append(lines, m.view.Alarm(show.Short(m.form.complaint, m.width)))
	}
	label := now.hint()
	if now.name != "" {
		label = show.Short(show.Line(now.name), 20) + " (" + label + orNothing(now.required, ", or nothing") + ")"
	}
	return append(lines, m.line(label+": ", f, len(lines)))
}

func orNothing(required bool, text string) string {
	if required {
		return ""
	}
	return text
}

// line returns the line in which the user types. If the text is too long, its end is shown.
func (m *model) line(label string, f *frame, row int) string {
	text := show.Line(m.input)
	room := max(m.width-show.Columns(label)-1, 1)
	for show.Columns(text) > room {
		_, text, _ = cutFirst(text)
	}
	f.row, f.column = row, min(show.Columns(label)+show.Columns(text), m.width-1)
	return show.Short(label+text, m.width)
}

func cutFirst(s string) (first, rest string, ok bool) {
	for i := range s {
		if i > 0 {
			return s[:i], s[i:], true
		}
	}
	return s, "", false
}

func (m *model) keys() string {
	pairs := []string{"j k", "select", "enter", "ticket", "a", "approve", "e", "edit", "d", "decline", "?", "help", "q", "quit"}
	if e := m.chosen(); e != nil && isQuestion(e.call.GetSuspension()) {
		pairs[5] = "answer"
	}
	switch m.mode {
	case reading:
		pairs[3] = "back"
	case helping:
		pairs = []string{"any key", "back"}
	case confirming:
		pairs = []string{"y", "yes", "n", "no"}
		if n := len(m.options()); n > 0 {
			pairs = append(pairs, "1"+orNothing(n == 1, fmt.Sprintf("-%d", n)), "approve and remember")
		}
	case keeping:
		pairs = []string{"esc", "back, nothing is decided"}
		for i, scope := range m.keepScopes() {
			pairs = slices.Insert(pairs, 2*i, scope[0], "there")
		}
	case reasoning, answering:
		pairs = []string{"enter", "send", "esc", "back, nothing is decided", "ctrl-u", "clear the line"}
		if m.form != nil && m.form.at+1 < len(m.form.fields) {
			pairs[1] = "next"
		}
	case choosing:
		if len(m.entries) == 0 {
			pairs = []string{"r", "refresh", "q", "quit"}
		}
	}
	var b strings.Builder
	used := 0
	for i := 0; i < len(pairs); i += 2 {
		if used += len(pairs[i]) + len(pairs[i+1]) + 3; used > m.width {
			break
		}
		b.WriteString(m.view.Marked(pairs[i]) + " " + m.view.Dim(pairs[i+1]) + "  ")
	}
	return strings.TrimRight(b.String(), " ")
}

func (m *model) help(room int) []string {
	const text = `
j k, arrows     select a call            g G         first call, last call
enter           show the whole ticket    space b     next page, previous page
                                         J K         next line, previous line
a               approve the call, or answer its question. Confirm with y. Or
                press a number: the approval then counts for similar calls too
e               edit the arguments, or the answer, in $EDITOR; then confirm
d               decline; the model reads your reason
c               claim the call for 5 minutes: others see that you look at it
r               refresh the list         q, ctrl-c   quit

An approval is valid only for the ticket that you see. When another person
decides first, or the call changes, the inbox says so and decides nothing. The
calls that you decided continue when you quit.`
	lines := show.Wrap(text, m.width)
	return lines[:min(len(lines), room)]
}
