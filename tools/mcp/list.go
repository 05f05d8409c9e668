package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/toold-dev/toold/tool"
)

// listed is the list of tools that a server sent.
type listed struct {
	Instructions string      `json:"instructions,omitempty"`
	Tools        []*sdk.Tool `json:"tools"`
}

// list reads the list of tools over a connection and offers the tools.
func (s *server) list(ctx context.Context, n *session) error {
	about := n.client.InitializeResult()
	l := listed{Instructions: about.Instructions}
	if about.Capabilities != nil && about.Capabilities.Tools != nil {
		var err error
		if l.Tools, err = n.tools(ctx); err != nil {
			return fmt.Errorf("list of tools: %w", err)
		}
	}
	name := "unknown"
	if i := about.ServerInfo; i != nil {
		name = cleanLine(i.Name+" "+i.Version, maxTitle)
	}
	s.note(func(h *tool.SourceStatus) { h.Server, h.Protocol = name, about.ProtocolVersion })
	if s.namespace != "" {
		s.claim(&l)
		return nil
	}
	s.listing.Lock()
	defer s.listing.Unlock()
	if !s.retired {
		s.offer(&l)
		s.keep(&l)
	}
	return nil
}

// claim records how the separate process of a namespace describes its tools.
func (s *server) claim(l *listed) {
	claims := map[string]string{}
	instructions := clean(l.Instructions, maxInstructions)
	for _, t := range l.Tools {
		if d, err := s.entry.describe(t, instructions); err == nil {
			claimed := s.entry.claimed(t, d)
			claims[d.ID], _ = claimed.Digest() // When there is no digest, calls of the tool are refused.
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims, s.source.Tools = claims, len(claims)
}

// agrees returns an error when the process of the call's namespace describes the tool differently from the listed description. Only the
// listed description was seen by callers and trusted by an operator.
func (s *server) agrees(t *remote) error {
	if s.namespace == "" {
		return nil
	}
	shown, err := t.claimed.Digest()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && shown != "" && s.claims[t.descriptor.ID] == shown {
		return nil
	}
	return notRun(&tool.Error{
		Code: tool.Upstream, Reason: "DEFINITION_DIFFERS",
		Message: fmt.Sprintf("Not run: in the workspace of this namespace, the server %s defines this tool differently from the list of tools", s.entry.Key),
	})
}

// offer lists the tools that are accepted. It records for the others why they are refused.
func (s *server) offer(l *listed) {
	why := map[string]error{}
	names := map[string]string{} // the server's names, by id
	var tools []tool.Tool
	instructions := clean(l.Instructions, maxInstructions)
	for _, t := range l.Tools {
		if !s.entry.takes(t.Name) {
			continue
		}
		d, err := s.entry.describe(t, instructions)
		if err == nil && taskAlone(t) {
			err = errTaskAlone
		}
		if other, ok := names[d.ID]; err == nil && ok {
			err = fmt.Errorf("%s already has the id %s", other, d.ID)
		}
		if err == nil && !s.shown[d.ID] && len(s.shown) >= maxShown {
			err = fmt.Errorf("the server has already listed %d other tools", maxShown)
		}
		if err != nil {
			why[t.Name] = err
			continue
		}
		names[d.ID], s.shown[d.ID] = t.Name, true
		tools = append(tools, &remote{server: s, name: t.Name, descriptor: d, claimed: s.entry.claimed(t, d)})
	}
	refused := s.cfg.Tools.Replace(s.source.Name, tools)
	for id, err := range refused {
		why[names[id]] = err
	}
	s.note(func(h *tool.SourceStatus) {
		h.Tools, h.Refused = len(tools)-len(refused), nil
		for _, name := range slices.Sorted(maps.Keys(why)) {
			h.Refused = append(h.Refused, tool.RefusedTool{Name: cleanLine(name, maxTitle), Reason: cleanLine(why[name].Error(), maxDescription)})
		}
	})
	for name, err := range why {
		s.cfg.Log.Warn("tool of an MCP server is refused", zap.String("server", s.entry.Key), zap.String("tool", cleanLine(name, maxTitle)), zap.Error(err))
	}
}

// recall lists the tools from Memory. It returns false when Memory has no list.
func (s *server) recall() bool {
	if s.cfg.Memory == nil {
		return false
	}
	text, ok := s.cfg.Memory.Recall(s.entry.Key)
	var l listed
	if !ok || json.Unmarshal(text, &l) != nil {
		return false
	}
	s.kept = text
	s.offer(&l)
	return true
}

// keep stores the list in Memory if it differs from the stored one.
func (s *server) keep(l *listed) {
	if s.cfg.Memory == nil {
		return
	}
	slices.SortStableFunc(l.Tools, func(a, b *sdk.Tool) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.Marshal(l)
	if err == nil && string(text) == string(s.kept) {
		return
	}
	if err == nil {
		err = s.cfg.Memory.Keep(s.entry.Key, text)
	}
	if err != nil {
		s.cfg.Log.Warn("tool list of an MCP server could not be stored", zap.String("server", s.entry.Key), zap.Error(err))
		return
	}
	s.kept = text
}
