// Package ask provides the tool ask_user, with which a model asks a person a question.
//
// The call suspends at once; the action of its ticket is "input". The answer becomes the data of the result, and the tool does not run
// again. The model chooses the form of an answer: text, one or several options of a list, or a value that a small JSON Schema describes.
// That schema is untrusted input, so only a small subset of JSON Schema is accepted ([answerProblem]).
package ask

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

// Limits of a question.
const (
	MaxQuestionLength = 4000 // characters
	MaxOptions        = 50
	MaxOptionLength   = 200 // characters
)

type arguments struct {
	Question string         `json:"question"`
	Options  []string       `json:"options,omitempty"`
	Multiple bool           `json:"multiple,omitempty"`
	Schema   map[string]any `json:"schema,omitempty"`
}

const parameters = `{
	"type": "object",
	"properties": {
		"question": {"type": "string", "description": "What to ask, with everything that a person needs to answer it.", "minLength": 1, "maxLength": 4000},
		"options": {
			"type": "array",
			"description": "The answers to choose from. Omit it for a free-text answer.",
			"items": {"type": "string", "minLength": 1, "maxLength": 200},
			"minItems": 1,
			"maxItems": 50,
			"uniqueItems": true
		},
		"multiple": {"type": "boolean", "description": "Whether more than one of the options may be chosen."},
		"schema": {
			"type": "object",
			"description": "Instead of options: a JSON Schema of the answer. It may use type, title, description, enum, const, default, properties, required, additionalProperties (true or false), items, and limits for numbers, lengths and items."
		}
	},
	"required": ["question"],
	"additionalProperties": false
}`

const guidance = "Ask only when you cannot find the answer yourself and your next step depends on it. Offer options where possible."

// New returns the tool ask_user. The tool changes nothing, so no gate needs to ask for approval before it runs.
func New() tool.Tool {
	return typed.New(tool.Descriptor{
		ID:           "ask_user",
		DisplayName:  "Ask the user",
		Description:  "Asks the user a question and waits for the answer.",
		Category:     "people",
		Parameters:   json.RawMessage(parameters),
		Effects:      tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe, ConcurrencySafe: true},
		MaxArguments: 64 << 10,
		Guidance:     guidance,
	}, ask, typed.WithValidate(validate), typed.WithDescribe(describe))
}

func ask(_ context.Context, _ *tool.Call, args arguments) (*tool.Result, error) {
	schema, err := json.Marshal(answerSchema(args))
	if err != nil {
		return nil, err
	}
	ticket := tool.Ticket{
		Action:         "input",
		Message:        args.Question,
		ResponseSchema: schema,
		ResumeMode:     tool.UseDecisionAsToolResult,
	}
	if len(args.Options) > 0 {
		ticket.Parameters, err = json.Marshal(struct {
			Options  []string `json:"options"`
			Multiple bool     `json:"multiple"`
		}{args.Options, args.Multiple})
	}
	return tool.SuspendedWith(ticket), err
}

func answerSchema(args arguments) any {
	switch {
	case args.Schema != nil:
		return args.Schema
	case args.Multiple:
		return map[string]any{
			"type":  "array",
			"items": map[string]any{"type": "string", "enum": args.Options}, "minItems": 1, "uniqueItems": true,
		}
	case len(args.Options) > 0:
		return map[string]any{"type": "string", "enum": args.Options}
	default:
		return map[string]any{"type": "string", "minLength": 1}
	}
}

func describe(_ context.Context, _ *tool.Call, args arguments) (tool.Description, error) {
	title, _, _ := strings.Cut(strings.TrimSpace(args.Question), "\n")
	if runes := []rune(title); len(runes) > 80 {
		title = string(runes[:79]) + "…"
	}
	return tool.Description{Kind: tool.KindOther, Title: "Ask: " + title}, nil
}

func validate(args arguments) error {
	var v []tool.Violation
	add := func(field, problem string) {
		if problem != "" {
			v = append(v, tool.Violation{Field: field, Description: problem})
		}
	}
	add("question", textProblem(args.Question, MaxQuestionLength))
	if len(args.Options) > MaxOptions {
		add("options", fmt.Sprintf("has %d options; at most %d are allowed", len(args.Options), MaxOptions))
	}
	for i, option := range args.Options {
		add(fmt.Sprintf("options[%d]", i), textProblem(option, MaxOptionLength))
		if slices.Contains(args.Options[:i], option) {
			add(fmt.Sprintf("options[%d]", i), "is a duplicate")
		}
	}
	switch {
	case args.Schema != nil && args.Options != nil:
		add("schema", "cannot be combined with options; use one of them")
	case args.Multiple && len(args.Options) == 0:
		add("multiple", "requires options")
	}
	if args.Schema != nil {
		field, problem := answerProblem(args.Schema)
		add(field, problem)
	}
	if v == nil {
		return nil
	}
	return &tool.Error{Code: tool.InvalidArguments, Message: "The question was not asked.", Violations: v}
}

func textProblem(s string, most int) string {
	switch n := utf8.RuneCountInString(s); {
	case strings.TrimSpace(s) == "":
		return "must not be blank"
	case n > most:
		return fmt.Sprintf("has %d characters; at most %d are allowed", n, most)
	}
	return ""
}
