package show

import (
	"cmp"
	"fmt"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Title says in a few words what a call that waits would do, on one line.
func Title(s *tooldv1.Suspension) string {
	switch {
	case s.GetDescription().GetTitle() != "":
		return fold(Line(s.GetDescription().GetTitle()))
	case s.GetMessage() != "":
		return fold(Line(s.GetMessage()))
	}
	return Line(s.GetPending().GetName())
}

// InboxLine is a call that waits on one line of width columns: what is asked, of which tool, since when, and its title.
func (v View) InboxLine(c *tooldv1.Call, width int) string {
	s := c.GetSuspension()
	action, tool, age := cut(Line(s.GetAction()), 9), cut(Line(s.GetPending().GetName()), 14), coarse(v.Now.Sub(s.GetCreatedAt().AsTime()))
	line := v.paint(waits, pad(action, 9)) + " " + v.paint(bold, pad(tool, 14)) + " " + v.paint(dim, pad(age, 4)) + " "
	title := Title(s)
	if votes := Votes(s); votes != "" {
		title = votes + "  " + title
	}
	return line + cut(title, max(width-9-14-4-3, 1))
}

// Votes says how many of the people who have to agree have done so; "" when one is enough.
func Votes(s *tooldv1.Suspension) string {
	if needed := s.GetApprovers().GetCount(); needed > 1 {
		return fmt.Sprintf("%d of %d votes", len(s.GetVotes()), needed)
	}
	return ""
}

// OptionTitle says what an approval can be kept for.
func OptionTitle(o *tooldv1.RememberOption) string {
	return Line(cmp.Or(o.GetTitle(), o.GetOption()))
}

func pad(s string, n int) string { return s + strings.Repeat(" ", max(n-columns(s), 0)) }

// Marked is text that stands out: keys, names, the line that is chosen.
func (v View) Marked(s string) string { return v.paint(bold, s) }

// Dim is text that steps back.
func (v View) Dim(s string) string { return v.paint(dim, s) }

// Alarm is text that something went wrong.
func (v View) Alarm(s string) string { return v.paint(bad, s) }

// Columns is how many columns of a terminal safe text takes.
func Columns(s string) int { return columns(s) }
