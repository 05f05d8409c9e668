package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/translate"
)

type tools struct {
	tooldv1.UnsafeToolServiceServer
	tools  Tools
	engine Engine
}

const maxToolPage = 1000

// revision returns a hash of the content of a list of tools. Tools that are hidden from the principal do not influence it. It stays the
// same after a restart.
func revision(all []*tool.Definition) string {
	h := sha256.New()
	for _, d := range all {
		h.Write([]byte(d.Descriptor.ID + "\x00" + d.Digest + "\x00"))
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// ListTools returns a page of the tools that the principal sees.
func (s *tools) ListTools(ctx context.Context, req *tooldv1.ListToolsRequest) (*tooldv1.ListToolsResponse, error) {
	p := access.From(ctx)
	f, err := toToolFilter(req)
	if err != nil {
		return nil, err
	}
	all := s.tools.List(p.Principal)
	resp := &tooldv1.ListToolsResponse{Revision: revision(all)}
	if req.GetIfRevision() == resp.Revision {
		resp.NotModified = true
		return resp, nil
	}
	b := f.bind(p, "tools")
	after, err := open(req.GetPageToken(), b)
	if err != nil {
		return nil, err
	}
	size := int(req.GetPageSize())
	if size == 0 || size > maxToolPage {
		size = maxToolPage
	}
	for _, d := range all {
		if d.Descriptor.ID <= string(after) || !f.includes(&d.Descriptor) {
			continue
		}
		if len(resp.Tools) == size {
			resp.NextPageToken = seal([]byte(resp.Tools[size-1].GetId()), b)
			break
		}
		resp.Tools = append(resp.Tools, translate.FromDescriptor(&d.Descriptor, d.Digest))
	}
	return resp, nil
}

// listRequest has the methods that all requests for lists of tools share.
type listRequest interface {
	GetOffered() *tooldv1.OfferedTools
	GetSource() string
	GetCategory() string
	GetMutability() tooldv1.Mutability
	GetPageSize() int32
}

// A toolFilter selects tools of a list. An empty field selects all tools.
type toolFilter struct {
	agent            tool.Agent // only its fields Allow and Exclude are used
	source, category string
	mutability       tool.Mutability
}

func (f *toolFilter) includes(d *tool.Descriptor) bool {
	return f.agent.Offers(d) && (f.source == "" || f.source == d.Source) && (f.category == "" || f.category == d.Category) &&
		(f.mutability == "" || f.mutability == d.Effects.Normal().Mutability)
}

// bind returns the binding of a page to the principal and the filter. what names the kind of list.
func (f *toolFilter) bind(p *access.Identity, what string) binding {
	return bind(slices.Concat([]string{what, p.Namespace, p.Subject, f.source, f.category, string(f.mutability)}, f.agent.Allow, []string{"/"}, f.agent.Exclude)...)
}

func toToolFilter(req listRequest) (*toolFilter, error) {
	if req.GetPageSize() < 0 {
		return nil, call.InvalidField("page_size", "is %d; 0 is %d", req.GetPageSize(), maxToolPage)
	}
	if err := translate.CheckOffered("offered", req.GetOffered()); err != nil {
		return nil, err
	}
	if err := cmp.Or(translate.Short("source", req.GetSource(), translate.MaxFilter), translate.Short("category", req.GetCategory(), translate.MaxFilter)); err != nil {
		return nil, err
	}
	f := &toolFilter{agent: tool.Agent{Allow: req.GetOffered().GetAllow(), Exclude: req.GetOffered().GetExclude()}, source: req.GetSource(), category: req.GetCategory()}
	switch req.GetMutability() {
	case tooldv1.Mutability_MUTABILITY_UNSPECIFIED:
	case tooldv1.Mutability_MUTABILITY_READ_ONLY:
		f.mutability = tool.ReadOnly
	case tooldv1.Mutability_MUTABILITY_MUTATING:
		f.mutability = tool.Mutating
	default:
		return nil, translate.UnknownEnum("mutability", int32(req.GetMutability()))
	}
	return f, nil
}

// GetTool returns one tool.
func (s *tools) GetTool(ctx context.Context, req *tooldv1.GetToolRequest) (*tooldv1.GetToolResponse, error) {
	if err := translate.Required("tool", req.GetTool()); err != nil {
		return nil, err
	}
	p := access.From(ctx).Principal
	t, ok := s.tools.Lookup(p, req.GetTool())
	if !ok {
		return nil, noTool(req.GetTool())
	}
	return &tooldv1.GetToolResponse{Tool: translate.FromDescriptor(&t.Descriptor, t.Digest), Revision: revision(s.tools.List(p))}, nil
}

func noTool(name string) error {
	return call.Refuse(call.NotFound, "TOOL_NOT_FOUND", "there is no tool %q here; ListTools lists them", name)
}

// WatchTools streams the changes of the tools that the principal sees.
func (s *tools) WatchTools(req *tooldv1.WatchToolsRequest, stream grpc.ServerStreamingServer[tooldv1.WatchToolsResponse]) error {
	ctx := stream.Context()
	p := access.From(ctx).Principal
	changed := s.tools.Watch(p) // Begin to watch before the first list is read, so that no change is lost.
	seen := s.tools.List(p)
	first := &tooldv1.WatchToolsResponse{Revision: revision(seen)}
	if first.Revision != req.GetRevision() {
		first.Reset_, first.Changes = true, changes(nil, seen)
	}
	for resp := first; ; {
		if err := stream.Send(resp); err != nil {
			return err
		}
		for resp = nil; resp == nil; {
			if err := changed(ctx); err != nil {
				return context.Cause(ctx)
			}
			now := s.tools.List(p)
			if c := changes(seen, now); len(c) > 0 {
				resp = &tooldv1.WatchToolsResponse{Revision: revision(now), Changes: c}
			}
			seen = now
		}
	}
}

// changes returns the differences between two sorted lists, sorted by id.
func changes(before, after []*tool.Definition) []*tooldv1.ToolChange {
	var out []*tooldv1.ToolChange
	digests := make(map[string]string, len(before))
	for _, t := range before {
		digests[t.Descriptor.ID] = t.Digest
	}
	for _, t := range after {
		id := t.Descriptor.ID
		if digest, was := digests[id]; !was || digest != t.Digest {
			out = append(out, &tooldv1.ToolChange{Change: &tooldv1.ToolChange_Put{Put: translate.FromDescriptor(&t.Descriptor, t.Digest)}})
		}
		delete(digests, id)
	}
	for id := range digests {
		out = append(out, &tooldv1.ToolChange{Change: &tooldv1.ToolChange_Removed{Removed: id}})
	}
	slices.SortFunc(out, func(a, b *tooldv1.ToolChange) int { return strings.Compare(changedID(a), changedID(b)) })
	return out
}

func changedID(c *tooldv1.ToolChange) string { return cmp.Or(c.GetRemoved(), c.GetPut().GetId()) }
