// Package todo provides the tools todo_read and todo_write. With them, a model keeps a list of its tasks.
//
// The list is one document of the thread, or of the run when the call has no thread. So it survives a restart, and frontends can show it.
// todo_write replaces the whole list. When two calls replace the same list, the first commit wins and the other call gets a state conflict.
package todo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

// DocumentKey is the key of the list's document.
const DocumentKey = "todo"

// Limits of a list. The longest list fits into the arguments of a call.
const (
	MaxItems         = 200
	MaxContentLength = 500 // characters
)

// A List is the value of the document, and the data of both tools.
type List struct {
	Todos []Item `json:"todos" jsonschema:"The complete list, in order. It replaces the current list; an empty list clears it."`
}

// An Item is one task.
type Item struct {
	Content string `json:"content"`
	Status  Status `json:"status"`
}

// Status is the progress of an item.
type Status string

// The statuses. At most one item of a list is in progress.
const (
	Pending    Status = "pending"
	InProgress Status = "in_progress"
	Completed  Status = "completed"
)

// The schema repeats the limits, because the model reads only the schema.
const writeSchema = `{
	"type": "object",
	"properties": {
		"todos": {
			"type": "array",
			"description": "The complete list, in order. It replaces the current list; an empty list clears it.",
			"maxItems": 200,
			"items": {
				"type": "object",
				"properties": {
					"content": {"type": "string", "description": "The task, in one line.", "minLength": 1, "maxLength": 500},
					"status": {"type": "string", "enum": ["pending", "in_progress", "completed"], "description": "At most one item is in_progress."}
				},
				"required": ["content", "status"],
				"additionalProperties": false
			}
		}
	},
	"required": ["todos"],
	"additionalProperties": false
}`

const guidance = "Keep a list for work of three steps or more: write it before you start, set one item to in_progress while you work on it, " +
	"and to completed as soon as it is done."

// Read returns the tool todo_read.
func Read() tool.Tool {
	return typed.New(tool.Descriptor{
		ID:          "todo_read",
		DisplayName: "Read todos",
		Description: "Returns the todo list of this conversation.",
		Category:    "planning",
		Effects:     tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe, ConcurrencySafe: true},
	}, func(_ context.Context, call *tool.Call, _ struct{}) (*tool.Result, error) {
		list, _, err := load(call)
		if err != nil {
			return nil, err
		}
		return list.result(), nil
	})
}

// Write returns the tool todo_write. The tool changes only the list, so no gate needs to ask for approval before it runs.
func Write() tool.Tool {
	return typed.New(tool.Descriptor{
		ID:          "todo_write",
		DisplayName: "Write todos",
		Description: "Replaces the todo list of this conversation.",
		Category:    "planning",
		Parameters:  json.RawMessage(writeSchema),
		Effects:     tool.Effects{Mutability: tool.Mutating, Tier: tool.Observe},
		Idempotent:  true,
		Guidance:    guidance,
	}, write, typed.WithValidate(List.validate))
}

func write(_ context.Context, call *tool.Call, list List) (*tool.Result, error) {
	_, revision, err := load(call)
	if err != nil {
		return nil, err
	}
	return list.result().With(key(call).SetAt(list, revision)), nil
}

func key(call *tool.Call) tool.Key[List] {
	if call.Run.Thread != "" {
		return tool.Key[List]{Scope: tool.ThreadScope, Name: DocumentKey}
	}
	return tool.Key[List]{Scope: tool.RunScope, Name: DocumentKey}
}

// load returns the list of a call's thread or run, and its revision. For a call with neither, it returns an error.
func load(call *tool.Call) (List, int64, error) {
	if call.Run.Thread == "" && call.Run.ID == "" {
		return List{}, 0, &tool.Error{Code: tool.ExecutionFailed, Reason: "NO_THREAD",
			Message: "There is no todo list: the call belongs to no thread and no run."}
	}
	return key(call).Get(call)
}

// validate checks the whole list. It repeats the checks of the schema and adds others: a content has no line end, and at most one item is
// in progress.
func (l List) validate() error {
	var v []tool.Violation
	add := func(field, format string, args ...any) {
		v = append(v, tool.Violation{Field: field, Description: fmt.Sprintf(format, args...)})
	}
	if len(l.Todos) > MaxItems {
		add("todos", "has %d items; at most %d are allowed", len(l.Todos), MaxItems)
	}
	working := -1
	for i, item := range l.Todos {
		field := fmt.Sprintf("todos[%d]", i)
		if problem := contentProblem(item.Content); problem != "" {
			add(field+".content", "%s", problem)
		}
		switch {
		case item.Status == InProgress && working >= 0:
			add(field+".status", "todos[%d] is already in_progress; at most one item may be", working)
		case item.Status == InProgress:
			working = i
		case item.Status != Pending && item.Status != Completed:
			add(field+".status", "must be pending, in_progress or completed")
		}
	}
	if v == nil {
		return nil
	}
	return &tool.Error{Code: tool.InvalidArguments, Message: "The todo list was not changed.", Violations: v}
}

func contentProblem(s string) string {
	switch {
	case strings.TrimSpace(s) == "":
		return "must not be blank"
	case utf8.RuneCountInString(s) > MaxContentLength:
		return fmt.Sprintf("has %d characters; at most %d are allowed", utf8.RuneCountInString(s), MaxContentLength)
	case strings.ContainsFunc(s, unicode.IsControl):
		return "must be one line without control characters"
	}
	return ""
}

// result returns the list: as numbered lines for the model, and as data for programs.
func (l List) result() *tool.Result {
	if len(l.Todos) == 0 {
		return tool.SuccessMessage(List{Todos: []Item{}}, "The todo list is empty.")
	}
	var lines strings.Builder
	count := map[Status]int{}
	for i, item := range l.Todos {
		count[item.Status]++
		fmt.Fprintf(&lines, "\n%d. [%s] %s", i+1, mark(item.Status), item.Content)
	}
	return tool.SuccessMessage(l, "%d todos: %d completed, %d in progress, %d pending%s",
		len(l.Todos), count[Completed], count[InProgress], count[Pending], lines.String())
}

func mark(s Status) string {
	switch s {
	case Completed:
		return "x"
	case InProgress:
		return "~"
	default:
		return " "
	}
}
