package permission

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// Action is the action of this gate's tickets.
const Action = "approval"

// parameters are details that a frontend may show next to the message.
type parameters struct {
	Tool       string    `json:"tool"`
	Tier       tool.Tier `json:"tier"`
	Rule       string    `json:"rule,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	FourEyes   bool      `json:"four_eyes,omitempty"`
	SingleUser bool      `json:"single_user,omitempty"`
	Command    string    `json:"command,omitempty"` // the part of a compound command that needs approval
}

// confirmation is the typed answer that replaces a second person.
type confirmation struct {
	Type       string                       `json:"type"`
	Properties map[string]map[string]string `json:"properties"`
	Required   []string                     `json:"required"`
	Additional bool                         `json:"additionalProperties"`
}

// ticket returns the question about a call. The engine adds the details of the call.
func (g *Gate) ticket(in *hook.Input, d *decision) tool.Ticket {
	id := in.Descriptor.ID
	alone := !d.alone() && g.singleUser
	t := tool.Ticket{
		Action:  Action,
		Message: message(in, d, alone),
		Parameters: mustJSON(parameters{
			Tool: id, Tier: in.Assessment.Normal().Tier, Rule: d.name(), Reason: d.reason(), FourEyes: d.fourEyes && !alone, SingleUser: alone,
			Command: clip(d.part, 1000),
		}),
		Approvers: &tool.Approvers{Roles: d.approvers.roles, Groups: d.approvers.groups, DistinctFromCaller: d.fourEyes && !alone, ResultInstead: d.instead && !alone},
		ExpiresIn: d.expiresIn,
	}
	if d.count > 1 && !alone {
		t.Approvers.Count = d.count
	}
	if g.remembered != nil && d.action == ask && d.alone() {
		for _, option := range optionsOf(in, g.splitter(in.Descriptor), g.rules.Load().candidatesOf(in.Descriptor).fields) {
			if kind, _, _ := cutOption(option); d.remember == nil || slices.Contains(d.remember, kind) {
				t.RememberOptions = append(t.RememberOptions, tool.RememberOption{Option: option, Title: Title(option)})
			}
		}
	}
	if alone {
		t.ResponseSchema = mustJSON(confirmation{
			Type:       "object",
			Properties: map[string]map[string]string{"confirm": {"const": id}},
			Required:   []string{"confirm"},
		})
	}
	return t
}

func message(in *hook.Input, d *decision, alone bool) string {
	text := "Allow " + in.Descriptor.ID
	if title := in.Description.Title; title != "" && title != in.Descriptor.Name() && title != in.Descriptor.ID {
		text += ": " + clip(title, 200)
	}
	text += "?"
	if reason := d.reason(); reason != "" {
		text += " " + reason
		if last, _ := utf8.DecodeLastRuneInString(reason); unicode.IsLetter(last) || unicode.IsDigit(last) {
			text += "."
		}
	}
	switch {
	case alone:
		text += ` Type "` + in.Descriptor.ID + `" to confirm.`
	case d.count > 1:
		text += fmt.Sprintf(" %d people have to agree", d.count)
		if d.fourEyes {
			text += ", none of them the caller"
		}
		text += "."
	case d.fourEyes:
		text += " Somebody other than the caller has to answer."
	}
	return text
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("permission: " + err.Error()) // encoding strings and booleans cannot fail
	}
	return b
}
