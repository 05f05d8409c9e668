package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// soleKey is the key of the only question of a ticket, and the name of its field if the answer is not an object.
const soleKey = "answer"

// A form is a question of a ticket.
type form struct {
	message string
	schema  json.RawMessage // of an object with fields that a form may have
	isBare  bool            // the answer is not the object but its only field
}

// schema has the members of a JSON Schema that decide whether a form can show it.
type schema struct {
	Type        string                     `json:"type"`
	Title       string                     `json:"title"`
	Description string                     `json:"description"`
	Properties  map[string]json.RawMessage `json:"properties"`
	Items       *schema                    `json:"items"`
	Enum        []any                      `json:"enum"`
	OneOf       []any                      `json:"oneOf"`
	AnyOf       []any                      `json:"anyOf"`
}

func parseSchema(text json.RawMessage) schema {
	var s schema
	if json.Unmarshal(text, &s) != nil {
		return schema{} // no form shows it
	}
	return s
}

// isField reports whether a field of a form may have the schema.
func (s *schema) isField() bool {
	switch s.Type {
	case "string", "number", "integer", "boolean":
		return true
	case "array":
		return s.Items != nil && len(s.Items.Enum)+len(s.Items.AnyOf)+len(s.Items.OneOf) > 0
	}
	return false
}

// isForm reports whether a form can ask for an object of the schema.
func (s *schema) isForm() bool {
	if s.Type != "object" {
		return false
	}
	for _, text := range s.Properties {
		if field := parseSchema(text); !field.isField() {
			return false
		}
	}
	return true
}

// A ticket has the questions of a suspension. If it has parts, the answer to it is an object with the answer to each question, by key.
type ticket struct {
	forms    map[string]form
	hasParts bool
}

// ticketOf returns the questions of a suspension. It asks several questions if each property of the answer is an object: then there is a form for
// each property. Without forms, forms cannot ask for the answer.
func ticketOf(q *tooldv1.Suspension) *ticket {
	message, text := clean(q.GetMessage()), json.RawMessage(q.GetResponseSchema())
	if len(text) == 0 {
		text = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	whole := parseSchema(text)
	switch {
	case whole.isForm():
		return &ticket{forms: map[string]form{soleKey: {message: message, schema: text}}}
	case whole.isField():
		bare := fmt.Appendf(nil, `{"type":"object","properties":{%q:%s},"required":[%q]}`, soleKey, text, soleKey)
		return &ticket{forms: map[string]form{soleKey: {message: message, schema: bare, isBare: true}}}
	}
	t := &ticket{forms: map[string]form{}, hasParts: true}
	for key, text := range whole.Properties {
		part := parseSchema(text)
		if !part.isForm() {
			return &ticket{}
		}
		f := form{message: message, schema: text}
		if part.Description != "" {
			f.message += "\n" + clean(part.Description)
		}
		t.forms[key] = f
	}
	return t
}

// questionsOf returns the questions of a suspension as input requests, or nil if the client gets none: it shows no forms, or forms cannot ask, or
// another person has to answer.
func (s *Server) questionsOf(c *client, q *tooldv1.Suspension) mcp.InputRequestMap {
	if q == nil || !c.form || q.GetApprovers() != nil {
		return nil
	}
	var all mcp.InputRequestMap
	for key, f := range ticketOf(q).forms {
		if all == nil {
			all = mcp.InputRequestMap{}
		}
		all[key] = &mcp.ElicitParams{Mode: "form", Message: f.message, RequestedSchema: f.schema}
	}
	return all
}

// An elicited is a client's answer to a question.
type elicited struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content"`
}

// decisionOf returns the decision that the answers to all questions of a suspension make. It returns nil if the person dismissed a question:
// then the suspension stays open.
func decisionOf(q *tooldv1.Suspension, answers map[string]json.RawMessage) (*tooldv1.Decision, error) {
	t, parts := ticketOf(q), map[string]json.RawMessage{}
	d := &tooldv1.Decision{Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME}
	for key, f := range t.forms {
		var a elicited
		if err := json.Unmarshal(answers[key], &a); err != nil {
			return nil, invalid(fmt.Sprintf("the answer to %s is not an elicitation result: %v", key, err))
		}
		switch a.Action {
		case "accept":
			content, err := f.content(a)
			if err != nil {
				return nil, invalid(fmt.Sprintf("the answer to %s: %v", key, err))
			}
			parts[key] = content
		case "decline":
			d.Action, d.Reason = tooldv1.DecisionAction_DECISION_ACTION_CANCEL, "the person declined in the MCP client"
		case "cancel":
			return nil, nil
		default:
			return nil, invalid(fmt.Sprintf("the answer to %s has the action %q; want accept, decline or cancel", key, clean(a.Action)))
		}
	}
	if d.Action == tooldv1.DecisionAction_DECISION_ACTION_RESUME {
		d.Result = string(parts[soleKey])
		if t.hasParts {
			whole, err := json.Marshal(parts)
			if err != nil {
				return nil, err
			}
			d.Result = string(whole)
		}
	}
	d.DecisionId = hashed(q.GetSuspensionId() + d.GetAction().String() + d.GetResult()) // The same answer again is the same decision.
	return d, nil
}

// content returns the JSON of an accepted answer.
func (f *form) content(a elicited) (json.RawMessage, error) {
	if len(a.Content) == 0 {
		a.Content = json.RawMessage(`{}`)
	}
	if !f.isBare {
		return a.Content, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(a.Content, &fields); err != nil {
		return nil, err
	}
	if fields[soleKey] == nil {
		return nil, fmt.Errorf("the field %s is required", soleKey)
	}
	return fields[soleKey], nil
}

// decide applies a decision. It returns when the journal has it.
func (s *Server) decide(ctx context.Context, id string, q *tooldv1.Suspension, d *tooldv1.Decision) error {
	ctx, cancel := context.WithCancel(ctx) // ends the stream: the call continues without a watcher
	defer cancel()
	stream, err := s.calls.ResumeTool(ctx, &tooldv1.ResumeToolRequest{SuspensionId: q.GetSuspensionId(), CallId: id, Decision: d})
	if err != nil {
		return err
	}
	if _, err = stream.Recv(); errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
