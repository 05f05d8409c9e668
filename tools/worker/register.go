package worker

import (
	"fmt"
	"strconv"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker/link"
)

// register registers the offered tools and makes the session serve them. It returns the tools that are not served.
func (h *Hub) register(s *Session, offers []link.Tool) []link.Refusal {
	h.registering.Lock()
	defer h.registering.Unlock()
	var fresh, serve []*offered
	var refused []link.Refusal
	room := h.room(s.owner.Namespace)
	for _, o := range offers {
		t, err := h.offeredOf(s.source, o)
		if err != nil {
			refused = append(refused, link.Refusal{Tool: shown(o.Descriptor.ID), Reason: link.Invalid, Message: err.Error()})
			continue
		}
		switch known, other := h.known(s.source, t); {
		case known == nil && len(fresh) >= room:
			refused = append(refused, link.Refusal{Tool: o.Descriptor.ID, Reason: link.TooMany, Message: fmt.Sprintf("workers of this namespace have %d tools, which is the limit", maxKnown)})
		case known == nil:
			fresh = append(fresh, t)
		case !other:
			serve = append(serve, known)
		default:
			if r := h.replace(s, t); r != nil {
				refused = append(refused, *r)
			} else {
				serve = append(serve, t)
			}
		}
	}
	added, not := h.add(s.source, fresh)
	refused = append(refused, not...)
	serve = append(serve, added...)
	h.serve(s, serve)
	for _, t := range serve {
		switch id := t.offer.Descriptor.ID; {
		case !h.cfg.Registry.Trusted(s.source, id):
			refused = append(refused, link.Refusal{Tool: id, Reason: link.Quarantined, Message: "its definition differs from the trusted one; an operator can accept it with: toold tools accept " + id})
		case h.cfg.Registry.Shadowed(s.source, id):
			refused = append(refused, link.Refusal{Tool: id, Reason: link.Taken, Message: "the daemon has a tool of this name for every namespace"})
		}
	}
	for i := range refused {
		refused[i].Message = clip(refused[i].Message, maxWhy)
	}
	return refused
}

// shown returns the name of a refused tool for logs and people, with unusual characters escaped.
func shown(id string) string {
	quoted := strconv.Quote(clip(id, maxName)) // Quote escapes unprintable characters.
	return clip(quoted[1:len(quoted)-1], maxName)
}

// room returns the number of tools that may still be registered for the workers of a namespace.
func (h *Hub) room(namespace string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := maxKnown
	for name, s := range h.sources {
		if of, _ := NamespaceOf(name); of == namespace {
			n -= len(s.tools)
		}
	}
	return n
}

// known returns the pool's registered tool with the id of t, or nil. other reports whether the definition of this tool differs from that of
// t.
func (h *Hub) known(source string, t *offered) (_ *offered, other bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.sourceLocked(source).tools[t.offer.Descriptor.ID]
	return known, known != nil && known.definition != t.definition
}

// add registers tools that are new in the pool. It first registers all at once. When that fails, it registers them one by one to find the
// ones that are refused.
func (h *Hub) add(source string, tools []*offered) (added []*offered, refused []link.Refusal) {
	if len(tools) == 0 {
		return nil, nil
	}
	all := make([]tool.Tool, len(tools))
	for i, t := range tools {
		all[i] = t.asTool()
	}
	if h.cfg.Registry.Register(source, all...) == nil {
		return tools, nil
	}
	for i, t := range tools {
		if err := h.cfg.Registry.Register(source, all[i]); err != nil {
			refused = append(refused, refusal(t, err))
			continue
		}
		added = append(added, t)
	}
	return added, refused
}

// replace replaces the definition of a tool that no worker serves any more by that of t.
func (h *Hub) replace(s *Session, t *offered) *link.Refusal {
	id := t.offer.Descriptor.ID
	h.mu.Lock()
	source := h.sourceLocked(s.source)
	if n := len(source.tools[id].serving); n > 0 {
		s.later[id] = t.offer
		h.mu.Unlock()
		return &link.Refusal{Tool: id, Reason: link.OtherDefinition, Message: fmt.Sprintf("%d workers of the pool serve it with another definition; this worker serves it after they disconnect", n)}
	}
	all := []tool.Tool{t.asTool()}
	for other, had := range source.tools {
		if other != id {
			all = append(all, had.asTool())
		}
	}
	h.mu.Unlock()
	if err := h.cfg.Registry.Replace(s.source, all...); err != nil {
		r := refusal(t, err)
		return &r
	}
	return nil
}

func (h *Hub) serve(s *Session, tools []*offered) {
	for _, t := range tools {
		h.keep(s.source, t)
	}
	h.mu.Lock()
	back := false
	for _, t := range tools {
		id := t.offer.Descriptor.ID
		source := h.sourceLocked(s.source)
		if was := source.tools[id]; was != nil && was != t && was.leaving != nil {
			was.leaving.Stop()
		}
		source.tools[id] = t
		delete(s.later, id)
		if !s.closed && t.joinLocked(s) {
			back = true
		}
	}
	h.fillLocked(s)
	h.mu.Unlock()
	if back {
		h.cfg.Registry.Refresh()
	}
}

// succeed is called for tools that have lost their last worker. When another connected worker has offered a different definition of such a
// tool, succeed registers that definition.
func (h *Hub) succeed(source string, ids []string) {
	for _, id := range ids {
		h.mu.Lock()
		var heirs []*Session
		for s := range h.sessions {
			if _, ok := s.later[id]; ok && s.source == source {
				heirs = append(heirs, s)
			}
		}
		h.mu.Unlock()
		for _, s := range heirs {
			h.mu.Lock()
			offer := s.later[id]
			h.mu.Unlock()
			for _, r := range h.register(s, []link.Tool{offer}) {
				h.log.Info("tool of a worker is still not served", zap.String("worker_id", s.id), zap.String("tool", r.Tool), zap.String("why", r.Message))
			}
		}
	}
}
