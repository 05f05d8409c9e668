// Package search provides the tool tool_search, with which a model finds tools that are not in its list of tools.
//
// When a client limits its list of tools with max_tools, the list contains this tool. The tool finds only tools that the caller may see and
// that the run offers. The result contains ids. The client adds the tools with these ids to its next request to the model.
package search

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

const (
	defaultLimit   = 8
	maxDescription = 200 // characters of a found tool's description
)

// A Finder finds tools. It returns at most limit tools that the caller of the call may see and that the run offers, the best first.
type Finder interface {
	Find(call *tool.Call, query string, limit int) []*tool.Descriptor
}

type arguments struct {
	Query string `json:"query"`
	Limit int    `json:"limit,omitempty"`
}

const parameters = `{
	"type": "object",
	"properties": {
		"query": {"type": "string", "description": "What the tool should do, such as: create a calendar event", "minLength": 1, "maxLength": 500},
		"limit": {"type": "integer", "description": "Number of tools; default 8", "minimum": 1, "maximum": 20}
	},
	"required": ["query"],
	"additionalProperties": false
}`

const resultSchema = `{
	"type": "object",
	"properties": {
		"tools": {
			"type": "array",
			"items": {
				"type": "object",
				"properties": {"id": {"type": "string"}, "description": {"type": "string"}},
				"required": ["id", "description"]
			}
		}
	},
	"required": ["tools"]
}`

// A list is the data of a result, the best tool first.
type list struct {
	Tools []found `json:"tools"`
}

type found struct {
	ID          string `json:"id"`
	Description string `json:"description"`
}

// New returns the tool tool_search.
func New(f Finder) tool.Tool {
	return typed.New(tool.Descriptor{
		ID:           tool.SearchID,
		DisplayName:  "Search tools",
		Description:  "Finds more tools. You can call the found tools in your next message. Use it when no tool in your list fits the task.",
		Category:     "planning",
		Parameters:   json.RawMessage(parameters),
		ResultSchema: json.RawMessage(resultSchema),
		Effects:      tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe, ConcurrencySafe: true},
		Idempotent:   true,
		MaxArguments: 4 << 10,
	}, func(_ context.Context, call *tool.Call, a arguments) (*tool.Result, error) {
		if a.Limit == 0 {
			a.Limit = defaultLimit
		}
		return result(a.Query, f.Find(call, a.Query, a.Limit)), nil
	}, typed.WithDescribe(func(_ context.Context, _ *tool.Call, a arguments) (tool.Description, error) {
		return tool.Description{Kind: tool.KindSearch, Title: fmt.Sprintf("Search for tools: %q", a.Query)}, nil
	}))
}

// result returns the found tools: as data for the client, and as lines of text for the model.
func result(query string, tools []*tool.Descriptor) *tool.Result {
	l := list{Tools: make([]found, len(tools))}
	var text strings.Builder
	for i, d := range tools {
		l.Tools[i] = found{d.ID, short(d.Description)}
		fmt.Fprintf(&text, "%s: %s\n", d.ID, l.Tools[i].Description)
	}
	if len(tools) == 0 {
		fmt.Fprintf(&text, "No tool matches %q. Try other words.", query)
	}
	return tool.SuccessMessage(l, "%s", strings.TrimSuffix(text.String(), "\n"))
}

// short returns the beginning of a description as one line.
func short(description string) string {
	line := strings.Join(strings.Fields(description), " ")
	runes := []rune(line)
	if len(runes) <= maxDescription {
		return line
	}
	return strings.TrimSpace(string(runes[:maxDescription])) + "…"
}
