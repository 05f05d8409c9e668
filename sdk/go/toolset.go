package toold

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A Provider is the format of a model's tools and messages.
type Provider string

// The providers.
const (
	OpenAI          Provider = "openai"           // Chat Completions, which many servers speak
	OpenAIResponses Provider = "openai-responses" // OpenAI's Responses API
	Anthropic       Provider = "anthropic"        // Anthropic's Messages API
	Gemini          Provider = "gemini"           // generateContent
	AISDK           Provider = "ai-sdk"           // messages of the Vercel AI SDK; its tools have the format of MCP
)

type format struct {
	turn          tooldv1.TurnProvider
	tools, strict tooldv1.ExportFormat // strict is unspecified when there is no strict mode
}

var formats = map[Provider]format{
	OpenAI:          {tooldv1.TurnProvider_TURN_PROVIDER_OPENAI, tooldv1.ExportFormat_EXPORT_FORMAT_OPENAI, tooldv1.ExportFormat_EXPORT_FORMAT_OPENAI_STRICT},
	OpenAIResponses: {tooldv1.TurnProvider_TURN_PROVIDER_OPENAI_RESPONSES, tooldv1.ExportFormat_EXPORT_FORMAT_OPENAI_RESPONSES, tooldv1.ExportFormat_EXPORT_FORMAT_OPENAI_RESPONSES_STRICT},
	Anthropic:       {tooldv1.TurnProvider_TURN_PROVIDER_ANTHROPIC, tooldv1.ExportFormat_EXPORT_FORMAT_ANTHROPIC, 0},
	Gemini:          {tooldv1.TurnProvider_TURN_PROVIDER_GEMINI, tooldv1.ExportFormat_EXPORT_FORMAT_GEMINI, 0},
	AISDK:           {tooldv1.TurnProvider_TURN_PROVIDER_AI_SDK, tooldv1.ExportFormat_EXPORT_FORMAT_MCP, 0},
}

// ToolsetConfig selects the tools of a [Toolset]. The zero value selects all that the daemon offers to the client.
type ToolsetConfig struct {
	Allow    []string // globs of tool ids; empty allows all
	Exclude  []string // globs of tool ids
	Strict   bool     // use the strict mode of OpenAI; toold removes the nulls that this mode adds to arguments
	OwnTools []string // names of tools that the client runs itself; see [TurnResult.NotHandled]
	// MaxTools is the largest number of tools, tool_search included; 0 means no limit. If more tools match, the model finds the remaining
	// ones with tool_search.
	MaxTools int
	Query    string // what the tools are for; tools that match the query are preferred when MaxTools limits the list
}

// A Toolset has the tools for a model, and runs the turns of the model. Its methods may be called concurrently.
type Toolset struct {
	client   *Client
	provider Provider
	cfg      ToolsetConfig
	format   format

	mu       sync.Mutex
	tools    json.RawMessage
	guidance string
	revision string
	recent   []string // ids of the tools that the model has called or found with tool_search, the newest first
}

// Toolset reads the tools for the models of a provider.
func (c *Client) Toolset(ctx context.Context, p Provider, cfg ToolsetConfig) (*Toolset, error) {
	f, ok := formats[p]
	if !ok {
		return nil, fmt.Errorf("provider %q: want %q, %q, %q, %q or %q", p, OpenAI, OpenAIResponses, Anthropic, Gemini, AISDK)
	}
	if cfg.Strict && f.strict == 0 {
		return nil, fmt.Errorf("%s has no strict mode: only %s and %s have one", p, OpenAI, OpenAIResponses)
	}
	s := &Toolset{client: c, provider: p, cfg: cfg, format: f}
	_, err := s.Refresh(ctx)
	return s, err
}

// Tools returns the JSON list for the member "tools" of a request to the model.
func (s *Toolset) Tools() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools
}

// Guidance returns a text about the tools for the system prompt. It may be empty.
func (s *Toolset) Guidance() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.guidance
}

// Revision changes when anything in Tools or Guidance changes.
func (s *Toolset) Revision() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// Refresh reads the tools again if they have changed, and reports whether they have. Agents call it before each request to the model.
func (s *Toolset) Refresh(ctx context.Context) (bool, error) {
	for {
		r := s.request() // All pages of a list need the same request, so build it once: a turn may add found tools meanwhile.
		first, err := s.page(ctx, r)
		if err != nil || first.GetNotModified() {
			return false, err
		}
		pages, last := []*tooldv1.ExportToolsResponse{first}, first
		for last.GetNextPageToken() != "" && last.GetRevision() == first.GetRevision() {
			r.IfRevision, r.PageToken = "", last.GetNextPageToken()
			if last, err = s.page(ctx, r); err != nil {
				return false, err
			}
			pages = append(pages, last)
		}
		if last.GetRevision() == first.GetRevision() {
			return true, s.take(pages)
		}
		// The tools changed between two pages, so read them again.
	}
}

// request returns the request for the first page. The daemon sends the page only if the list has changed since the last Refresh.
func (s *Toolset) request() *tooldv1.ExportToolsRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &tooldv1.ExportToolsRequest{
		Format: s.format.tools, Offered: s.offered(), MaxTools: int32(min(s.cfg.MaxTools, 1<<30)), Query: s.cfg.Query, IfRevision: s.revision,
	}
	if s.cfg.Strict {
		r.Format = s.format.strict
	}
	if s.cfg.MaxTools > 0 {
		r.Include = s.recent
	}
	return r
}

func (s *Toolset) page(ctx context.Context, r *tooldv1.ExportToolsRequest) (*tooldv1.ExportToolsResponse, error) {
	return again(ctx, s.client.patience, func() (*tooldv1.ExportToolsResponse, error) { return s.client.Tools.ExportTools(ctx, r) })
}

// offered returns nil when all tools are offered.
func (s *Toolset) offered() *tooldv1.OfferedTools {
	if len(s.cfg.Allow) == 0 && len(s.cfg.Exclude) == 0 {
		return nil
	}
	return &tooldv1.OfferedTools{Allow: s.cfg.Allow, Exclude: s.cfg.Exclude}
}

func (s *Toolset) take(pages []*tooldv1.ExportToolsResponse) error {
	tools, guidance := []json.RawMessage{}, []string(nil)
	for _, p := range pages {
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(p.GetTools()), &list); err != nil {
			return fmt.Errorf("the tools of the daemon are no list: %w", err)
		}
		tools = append(tools, list...)
		if p.GetGuidance() != "" {
			guidance = append(guidance, p.GetGuidance())
		}
	}
	text, err := json.Marshal(tools)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools, s.guidance, s.revision = text, strings.Join(guidance, "\n\n"), pages[0].GetRevision()
	return nil
}

const (
	searchID   = "tool_search"
	maxInclude = 1000 // maximum number of ids in a request for an export
	maxID      = 64   // maximum length of a tool's id, in bytes; a model may name a tool that does not exist
)

// called records which tools the model has called. Otherwise found tools would soon displace called tools from the list.
func (s *Toolset) called(calls []*tooldv1.TurnCall) {
	var ids []string
	for _, c := range calls {
		if c.GetTool() != searchID && len(c.GetTool()) <= maxID {
			ids = append(ids, c.GetTool())
		}
	}
	s.prefer(ids)
}

// found records which tools a call of tool_search has found.
func (s *Toolset) found(data string) {
	var answer struct {
		Tools []struct {
			ID string `json:"id"`
		} `json:"tools"`
	}
	if json.Unmarshal([]byte(data), &answer) != nil {
		return // the search failed
	}
	var ids []string
	for _, t := range answer.Tools {
		ids = append(ids, t.ID)
	}
	s.prefer(ids)
}

// prefer makes the next Refresh include these tools.
func (s *Toolset) prefer(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var recent []string
	for _, id := range append(ids, s.recent...) {
		if !slices.Contains(recent, id) {
			recent = append(recent, id)
		}
	}
	s.recent = recent[:min(len(recent), maxInclude)]
}

// NewTurnID returns a new random id for a turn.
func NewTurnID() string { return uuid.NewString() }

// Turn returns the turn of a model's response, which [Turn.Run] executes. The spec needs the response and a turn id of [NewTurnID]. The
// toolset sets the provider, strict, own_tools and run.agent.tools.
//
// Store the turn id with the response before Run. After a crash, send both again: no call runs twice.
func (s *Toolset) Turn(spec *tooldv1.TurnSpec) *Turn {
	spec = proto.CloneOf(spec)
	spec.Provider, spec.Strict, spec.OwnTools = s.format.turn, s.cfg.Strict, s.cfg.OwnTools
	if offered := s.offered(); offered != nil {
		if spec.Run == nil {
			spec.Run = &tooldv1.Run{}
		}
		if spec.Run.Agent == nil {
			spec.Run.Agent = &tooldv1.Agent{}
		}
		spec.Run.Agent.Tools = offered
	}
	return &Turn{toolset: s, spec: spec}
}
