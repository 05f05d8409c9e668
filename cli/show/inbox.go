package show

import (
	"cmp"
	"fmt"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Title summarises on one line what a suspended call would do.
func Title(s *tooldv1.Suspension) string {
	switch {
	case s.GetDescription().GetTitle() != "":
		return fold(Line(s.GetDescription().GetTitle()))
	case s.GetMessage() != "":
		return fold(Line(s.GetMessage()))
	}
	return Line(s.GetPending().GetName())
}

// InboxLine formats a suspended call on one line of width columns: the question, the tool, the age and the title.
func (v View) InboxLine(c *tooldv1.Call, width int) string {
	s := c.GetSuspension()
	action, tool, age := cut(Line(s.GetAction()), 9), cut(Line(s.GetPending().GetName()), 14), coarse(v.Now.Sub(s.GetCreatedAt().AsTime()))
	line := v.paint(waits, pad(action, 9)) + " " + v.paint(bold, pad(tool, 14)) + " " + v.paint(dim, pad(age, 4)) + " "
	title := Title(s)
	if votes := Votes(s); votes != "" {
		title = votes + "  " + title
	}
	if c := s.GetClaim(); v.claimed(s) != "" {
		title = "(" + Line(c.GetClaimedBy().GetSubject()) + " looks at it)  " + title
	}
	return line + cut(title, max(width-9-14-4-3, 1))
}

// Votes returns how many of the required approvers have approved. It returns "" when one approval is enough.
func Votes(s *tooldv1.Suspension) string {
	if needed := s.GetApprovers().GetCount(); needed > 1 {
		return fmt.Sprintf("%d of %d votes", len(s.GetVotes()), needed)
	}
	return ""
}

// OptionTitle describes what an approval can be kept for.
func OptionTitle(o *tooldv1.RememberOption) string {
	return Line(cmp.Or(o.GetTitle(), o.GetOption()))
}

func pad(s string, n int) string { return s + strings.Repeat(" ", max(n-columns(s), 0)) }

// Marked formats text that must stand out: keys, names, the chosen line.
func (v View) Marked(s string) string { return v.paint(bold, s) }

// Dim formats less important text.
func (v View) Dim(s string) string { return v.paint(dim, s) }

// Alarm formats text about an error.
func (v View) Alarm(s string) string { return v.paint(bad, s) }

// Columns returns how many terminal columns safe text takes.
func Columns(s string) int { return columns(s) }
