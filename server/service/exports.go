package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/registry/export"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/translate"
)

// maxExport bounds a page in bytes, so that clients can receive it as one message.
const maxExport = 1 << 20

// formats lists the values of ExportFormat in their order, beginning with the value 1.
var formats = []export.Format{export.OpenAI, export.OpenAIStrict, export.Anthropic, export.Gemini, export.MCP, export.Responses, export.ResponsesStrict}

const (
	maxQuery   = 4096 // bytes of ExportToolsRequest.query
	maxInclude = 1000 // ids in ExportToolsRequest.include
)

// ExportTools returns a page of the tools that the principal sees, in the format of a provider.
func (s *tools) ExportTools(ctx context.Context, req *tooldv1.ExportToolsRequest) (*tooldv1.ExportToolsResponse, error) {
	p := access.From(ctx)
	f, err := toToolFilter(req)
	if err != nil {
		return nil, err
	}
	if err := checkExport(req); err != nil {
		return nil, err
	}
	i := int(req.GetFormat()) - 1
	b := f.bind(p, exportOf(req))
	after, err := open(req.GetPageToken(), b)
	if err != nil {
		return nil, err
	}
	listed := s.exported(p.Principal, f, req)
	descriptors := make([]*tool.Descriptor, len(listed))
	digests := make(map[string]string, len(listed))
	for i, d := range listed {
		descriptors[i], digests[d.Descriptor.ID] = &d.Descriptor, d.Digest
	}
	all, err := export.Export(formats[i], descriptors)
	if err != nil {
		return nil, err
	}
	e := &exported{List: all, format: formats[i], revision: revision(listed) + all.Revision, digests: digests}
	if req.GetIfRevision() == e.revision {
		return &tooldv1.ExportToolsResponse{Revision: e.revision, NotModified: true}, nil
	}
	from, _ := slices.BinarySearchFunc(all.Tools, string(after)+"\x00", func(t export.Tool, id string) int { return cmp.Compare(t.ID, id) })
	return e.page(from, int(req.GetPageSize()), b), nil
}

// checkExport checks the fields that other requests for tools do not have.
func checkExport(req *tooldv1.ExportToolsRequest) error {
	switch i := int(req.GetFormat()) - 1; {
	case i == -1:
		return call.InvalidField("format", "is required: OPENAI, OPENAI_STRICT, OPENAI_RESPONSES, OPENAI_RESPONSES_STRICT, ANTHROPIC, GEMINI or MCP")
	case i < 0 || i >= len(formats):
		return translate.UnknownEnum("format", int32(req.GetFormat()))
	}
	switch n := req.GetMaxTools(); {
	case n < 0:
		return call.InvalidField("max_tools", "is %d; 0 means no limit", n)
	case n == 0 && req.GetQuery() != "":
		return call.InvalidField("query", "needs max_tools: without a limit, all tools are exported in the order of their ids")
	case n == 0 && len(req.GetInclude()) > 0:
		return call.InvalidField("include", "needs max_tools: without a limit, all tools are exported")
	}
	if n := len(req.GetInclude()); n > maxInclude {
		return call.InvalidField("include", "has %d ids; at most %d are accepted", n, maxInclude)
	}
	for i, id := range req.GetInclude() {
		if err := translate.Short(fmt.Sprintf("include[%d]", i), id, translate.MaxFilter); err != nil {
			return err
		}
	}
	return translate.Short("query", req.GetQuery(), maxQuery)
}

// exportOf returns a name for the list that a request selects. The name is a part of the binding of page tokens.
func exportOf(req *tooldv1.ExportToolsRequest) string {
	kind := "export " + string(formats[req.GetFormat()-1])
	if req.GetMaxTools() > 0 {
		kind = fmt.Sprintf("%s %d %q %q", kind, req.GetMaxTools(), req.GetQuery(), req.GetInclude())
	}
	return kind
}

// exported returns the tools of an export, sorted by id. If there are more than max_tools, it returns the most useful tools and
// tool_search, with which a model finds the remaining ones. It omits tool_search when offered.exclude or a rule removes it.
func (s *tools) exported(p tool.Principal, f *toolFilter, req *tooldv1.ExportToolsRequest) []*tool.Definition {
	listed := slices.DeleteFunc(s.tools.List(p), func(d *tool.Definition) bool { return !f.includes(&d.Descriptor) })
	limit := int(req.GetMaxTools())
	if limit == 0 || len(listed) <= limit {
		return listed
	}
	searcher, ok := s.tools.Lookup(p, tool.SearchID)
	if !ok || !f.agent.Offers(&searcher.Descriptor) {
		return s.tools.Select(p, f.includes, req.GetQuery(), req.GetInclude(), limit)
	}
	selected := append(s.tools.Select(p, f.includes, req.GetQuery(), req.GetInclude(), limit-1), searcher)
	slices.SortFunc(selected, func(a, b *tool.Definition) int { return cmp.Compare(a.Descriptor.ID, b.Descriptor.ID) })
	return selected
}

// exported is a list of tools in the format of a provider, with the revision and digests that the API adds.
type exported struct {
	*export.List
	format   export.Format
	revision string            // hash of the list and the digests; it changes when one of them changes
	digests  map[string]string // digests by tool id
}

// page returns the page that begins with the tool at index from.
func (e *exported) page(from, size int, b binding) *tooldv1.ExportToolsResponse {
	resp := &tooldv1.ExportToolsResponse{Revision: e.revision}
	if from == 0 {
		resp.Notes = e.Notes
		resp.Omitted = translate.Each(e.Omitted, func(o *export.Omission) *tooldv1.OmittedTool {
			return &tooldv1.OmittedTool{Tool: o.ID, Reason: o.Reason}
		})
	}
	if size == 0 || size > maxToolPage {
		size = maxToolPage
	}
	to, bytes := from, 0
	for ; to < len(e.Tools) && to-from < size; to++ {
		if bytes += len(e.Tools[to].Definition) + len(e.Tools[to].Guidance); bytes > maxExport && to > from {
			break
		}
	}
	tools := e.Tools[from:to]
	resp.Tools, resp.Guidance = string(export.Join(e.format, tools)), export.Guidance(tools)
	resp.Exported = translate.Each(tools, func(t *export.Tool) *tooldv1.ExportedTool {
		return &tooldv1.ExportedTool{Name: t.Name, Tool: t.ID, Digest: e.digests[t.ID], Notes: t.Notes, NullArguments: t.Nulls}
	})
	if to < len(e.Tools) {
		resp.NextPageToken = seal([]byte(e.Tools[to-1].ID), b)
	}
	return resp
}
