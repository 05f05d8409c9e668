package grpcserver

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

// tools is the ToolService.
type tools struct {
	tooldv1.UnsafeToolServiceServer
	tools Tools
}

const maxToolPage = 1000

// revision names what a principal sees, by content: a change of a tool that is hidden from it changes nothing, and the
// same tools have the same revision after a restart.
func revision(all []Tool) string {
	h := sha256.New()
	for i := range all {
		h.Write([]byte(all[i].Descriptor.ID + "\x00" + all[i].Digest + "\x00"))
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// ListTools returns a page of the tools that the principal sees.
func (s *tools) ListTools(ctx context.Context, req *tooldv1.ListToolsRequest) (*tooldv1.ListToolsResponse, error) {
	p := access.From(ctx)
	mutability, err := checkList(req)
	if err != nil {
		return nil, err
	}
	f := filterOf(req)
	all := s.tools.List(p.Principal, ToolFilter{})
	resp := &tooldv1.ListToolsResponse{Revision: revision(all)}
	if req.GetIfRevision() == resp.Revision {
		resp.NotModified = true
		return resp, nil
	}
	b := bindList(p, f, mutability, "tools")
	after, err := open(req.GetPageToken(), b)
	if err != nil {
		return nil, err
	}
	size := int(req.GetPageSize())
	if size == 0 || size > maxToolPage {
		size = maxToolPage
	}
	for _, t := range s.tools.List(p.Principal, f) {
		if t.Descriptor.ID <= string(after) || mutability != "" && t.Descriptor.Effects.Normal().Mutability != mutability {
			continue
		}
		if len(resp.Tools) == size {
			resp.NextPageToken = seal([]byte(resp.Tools[size-1].GetId()), b)
			break
		}
		resp.Tools = append(resp.Tools, translate.FromDescriptor(t.Descriptor, t.Digest))
	}
	return resp, nil
}

// listRequest is what requests for lists of tools share.
type listRequest interface {
	GetOffered() *tooldv1.OfferedTools
	GetSource() string
	GetCategory() string
	GetMutability() tooldv1.Mutability
	GetPageSize() int32
}

func filterOf(req listRequest) ToolFilter {
	return ToolFilter{Allow: req.GetOffered().GetAllow(), Exclude: req.GetOffered().GetExclude(), Source: req.GetSource(), Category: req.GetCategory()}
}

// bindList binds a page to who asks for what.
func bindList(p *access.Identity, f ToolFilter, m tool.Mutability, what string) binding {
	return bind(slices.Concat([]string{what, p.Namespace, p.Subject, f.Source, f.Category, string(m)}, f.Allow, []string{"/"}, f.Exclude)...)
}

func checkList(req listRequest) (tool.Mutability, error) {
	if req.GetPageSize() < 0 {
		return "", call.InvalidField("page_size", "is %d; 0 is %d", req.GetPageSize(), maxToolPage)
	}
	if err := translate.CheckOffered("offered", req.GetOffered()); err != nil {
		return "", err
	}
	if err := cmp.Or(translate.Short("source", req.GetSource(), translate.MaxFilter), translate.Short("category", req.GetCategory(), translate.MaxFilter)); err != nil {
		return "", err
	}
	switch req.GetMutability() {
	case tooldv1.Mutability_MUTABILITY_UNSPECIFIED:
		return "", nil
	case tooldv1.Mutability_MUTABILITY_READ_ONLY:
		return tool.ReadOnly, nil
	case tooldv1.Mutability_MUTABILITY_MUTATING:
		return tool.Mutating, nil
	}
	return "", translate.UnknownEnum("mutability", int32(req.GetMutability()))
}

// GetTool returns one tool.
func (s *tools) GetTool(ctx context.Context, req *tooldv1.GetToolRequest) (*tooldv1.GetToolResponse, error) {
	if err := translate.Required("tool", req.GetTool()); err != nil {
		return nil, err
	}
	p := access.From(ctx).Principal
	t, ok := s.tools.Lookup(p, req.GetTool())
	if !ok {
		return nil, call.Refuse(call.NotFound, "TOOL_NOT_FOUND", "there is no tool %q here; ListTools lists them", req.GetTool())
	}
	return &tooldv1.GetToolResponse{Tool: translate.FromDescriptor(t.Descriptor, t.Digest), Revision: revision(s.tools.List(p, ToolFilter{}))}, nil
}

// WatchTools streams the changes of what the principal sees.
func (s *tools) WatchTools(req *tooldv1.WatchToolsRequest, stream grpc.ServerStreamingServer[tooldv1.WatchToolsResponse]) error {
	ctx := stream.Context()
	p := access.From(ctx).Principal
	changed := s.tools.Watch(p) // before the first look, so that nothing falls between
	seen := s.tools.List(p, ToolFilter{})
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
			now := s.tools.List(p, ToolFilter{})
			if c := changes(seen, now); len(c) > 0 {
				resp = &tooldv1.WatchToolsResponse{Revision: revision(now), Changes: c}
			}
			seen = now
		}
	}
}

// changes is what became of before, sorted by id. Both are sorted.
func changes(before, after []Tool) []*tooldv1.ToolChange {
	var out []*tooldv1.ToolChange
	digests := make(map[string]string, len(before))
	for _, t := range before {
		digests[t.Descriptor.ID] = t.Digest
	}
	for _, t := range after {
		id := t.Descriptor.ID
		if digest, was := digests[id]; !was || digest != t.Digest {
			out = append(out, &tooldv1.ToolChange{Change: &tooldv1.ToolChange_Put{Put: translate.FromDescriptor(t.Descriptor, t.Digest)}})
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
