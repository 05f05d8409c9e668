package shell

import (
	"context"
	"fmt"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// The strictest and the mildest effects that assess returns.
var (
	worstEffects = tool.Effects{Mutability: tool.Mutating, Safety: tool.SafetyDestructive, Tier: tool.Confirm, OpenWorld: true}
	// A call with these effects is still recorded before its command starts, because the descriptor, not the assessment, determines the
	// journal class (SYNC or BEHIND).
	mildestEffects = tool.Effects{Mutability: tool.ReadOnly, Safety: tool.SafetyReadOnly, Tier: tool.Observe, ConcurrencySafe: true}
)

// assess returns the effects of a command, as far as its text shows them. For gates this is advice; only isolation limits what a command
// can do. An unknown command counts as a change. A command that cannot be analysed counts as destructive.
//
// A command that only reads still needs consent when it may read outside the working directory.
func (s *shell) assess(args arguments) tool.Effects {
	worst := analyse(args.Command, s.cfg.Dir).worst
	if args.takesInput() { // Input will be typed later. It is unknown now and may do more than the text of the command shows.
		worst = worst.and(destroys(typedLater))
	}
	if worst.safety != tool.SafetyReadOnly {
		e := worstEffects
		e.Safety = worst.safety
		return e
	}
	e := mildestEffects
	if worst.outside {
		e.Tier = tool.Confirm
	}
	return e
}

const typedLater = "its input is not known"

const (
	titleLength = 80
	partLength  = 1023
	partsShown  = 64
)

// describe shows the command itself and the parts that [Split] finds in it. It labels the model's description of the command as words of
// the model, because an approver must judge the command, not its description.
func (s *shell) describe(_ context.Context, _ *tool.Call, args arguments) (tool.Description, error) {
	text := strings.TrimSpace(args.Command)
	title, rest, _ := strings.Cut(text, "\n")
	short := clip(title, titleLength)
	if short != title {
		title, rest = strings.TrimSuffix(short, " …"), "more"
	}
	if rest != "" {
		title = strings.TrimSpace(title) + " …"
	}
	d := tool.Description{
		Kind:    tool.KindExecute,
		Title:   title,
		Preview: []tool.Content{{Type: tool.ContentText, Text: args.Command}},
		Notes:   []string{s.cfg.isolation().person},
	}
	a := analyse(args.Command, s.cfg.Dir)
	d.Command = a.shown()
	d.Notes = append(d.Notes, a.notes()...)
	if args.takesInput() {
		d.Notes = append(d.Notes, "Takes input while it runs: "+typedLater+".")
	}
	if args.Description != "" {
		d.Notes = append(d.Notes, "The model says: "+args.Description)
	}
	return d, nil
}

// notes describes the effect of the whole command.
func (a *analysis) notes() []string {
	notes := []string{capital(verdictOf(a.worst)) + "."}
	if a.worst.safety == tool.SafetyReadOnly && a.worst.outside {
		notes[0] = "Only reads, possibly outside the working directory."
	}
	if len(a.parts) > partsShown {
		notes = append(notes, fmt.Sprintf("The command has %d parts; the list shows %d.", len(a.parts), partsShown))
	}
	return notes
}

// shown returns the first parts, with shortened texts, as an approver sees them.
func (a *analysis) shown() []tool.CommandPart {
	parts := make([]tool.CommandPart, min(len(a.parts), partsShown))
	for i := range parts {
		p := &a.parts[i]
		parts[i] = tool.CommandPart{Text: clip(p.Text, partLength), Safety: p.Safety, Reason: p.Reason, Unknown: p.Unknown}
	}
	return parts
}

func verdictOf(e effect) string {
	text := map[tool.Safety]string{
		tool.SafetyReadOnly: "only reads", tool.SafetyMutating: "changes something",
		tool.SafetyNetwork: "reaches the network", tool.SafetyDestructive: "destructive",
	}[e.safety]
	if e.reason != "" {
		text += ": " + e.reason
	}
	return text
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// clip shortens a text at a character boundary.
func clip(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + " …"
	}
	return s
}
