package grpcserver

import (
	"cmp"
	"context"
	"slices"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/translate"
)

// maxExport bounds a page in bytes, so that it fits what clients take in one message.
const maxExport = 1 << 20

// formats are the names of formats, in the order of ExportFormat, from 1.
var formats = []string{"openai", "openai-strict", "anthropic", "gemini", "mcp"}

// ExportTools returns a page of the tools that the principal sees, in the words of a provider.
func (s *tools) ExportTools(ctx context.Context, req *tooldv1.ExportToolsRequest) (*tooldv1.ExportToolsResponse, error) {
	p := access.From(ctx)
	mutability, err := checkList(req)
	if err != nil {
		return nil, err
	}
	i := int(req.GetFormat()) - 1
	switch {
	case i == -1:
		return nil, call.InvalidField("format", "is required: OPENAI, OPENAI_STRICT, ANTHROPIC, GEMINI or MCP")
	case i < 0 || i >= len(formats):
		return nil, translate.UnknownEnum("format", int32(req.GetFormat()))
	}
	f := filterOf(req)
	b := bindList(p, f, mutability, "export "+formats[i])
	after, err := open(req.GetPageToken(), b)
	if err != nil {
		return nil, err
	}
	listed := s.tools.List(p.Principal, f)
	listed = slices.DeleteFunc(listed, func(t Tool) bool {
		return mutability != "" && t.Descriptor.Effects.Normal().Mutability != mutability
	})
	all, err := s.tools.Export(formats[i], listed)
	if err != nil {
		return nil, err
	}
	all.Revision = revision(listed) + all.Revision // the digests are told too
	if req.GetIfRevision() == all.Revision {
		return &tooldv1.ExportToolsResponse{Revision: all.Revision, NotModified: true}, nil
	}
	from, _ := slices.BinarySearchFunc(all.Tools, string(after)+"\x00", func(t ExportedTool, id string) int { return cmp.Compare(t.ID, id) })
	return exportPage(all, from, int(req.GetPageSize()), b), nil
}

// exportPage is the page that begins with the tool at from.
func exportPage(all *Export, from, size int, b binding) *tooldv1.ExportToolsResponse {
	resp := &tooldv1.ExportToolsResponse{Revision: all.Revision}
	if from == 0 {
		resp.Notes = all.Notes
		resp.Omitted = translate.Each(all.Omitted, func(o *OmittedTool) *tooldv1.OmittedTool {
			return &tooldv1.OmittedTool{Tool: o.ID, Reason: o.Reason}
		})
	}
	if size == 0 || size > maxToolPage {
		size = maxToolPage
	}
	to, bytes := from, 0
	for ; to < len(all.Tools) && to-from < size; to++ {
		if bytes += all.Tools[to].Size; bytes > maxExport && to > from {
			break
		}
	}
	resp.Tools, resp.Guidance = all.Page(from, to)
	resp.Exported = translate.Each(all.Tools[from:to], func(t *ExportedTool) *tooldv1.ExportedTool {
		return &tooldv1.ExportedTool{Name: t.Name, Tool: t.ID, Digest: t.Digest, Notes: t.Notes, NullArguments: t.Nulls}
	})
	if to < len(all.Tools) {
		resp.NextPageToken = seal([]byte(all.Tools[to-1].ID), b)
	}
	return resp
}
