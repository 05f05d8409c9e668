package server

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// ListQuarantinedTools returns a page of the tools whose definitions wait to be accepted.
func (s *admin) ListQuarantinedTools(ctx context.Context, req *tooldv1.ListQuarantinedToolsRequest) (*tooldv1.ListQuarantinedToolsResponse, error) {
	p := principal(ctx)
	size := int(req.GetPageSize())
	if size < 0 {
		return nil, call.InvalidField("page_size", "is %d; 0 is %d", size, maxToolPage)
	}
	if size == 0 || size > maxToolPage {
		size = maxToolPage
	}
	if err := short("tool", req.GetTool(), maxFilter); err != nil {
		return nil, err
	}
	b := bind("quarantined", p.Namespace, p.Subject, req.GetTool())
	after, err := open(req.GetPageToken(), b)
	if err != nil {
		return nil, err
	}
	resp, bytes := &tooldv1.ListQuarantinedToolsResponse{}, 0
	for _, q := range s.admin.Quarantined() {
		id := q.Waiting.Descriptor.ID
		if id <= string(after) || req.GetTool() != "" && req.GetTool() != id {
			continue
		}
		t := &tooldv1.QuarantinedTool{Trusted: fromTool(q.Trusted), Waiting: fromTool(q.Waiting)}
		t.Trusted.Id = cmp.Or(t.Trusted.GetId(), id)
		bytes += proto.Size(t)
		if n := len(resp.Tools); n == size || n > 0 && bytes > maxExport {
			resp.NextPageToken = seal([]byte(resp.Tools[n-1].GetWaiting().GetId()), b)
			break
		}
		resp.Tools = append(resp.Tools, t)
	}
	return resp, nil
}

// AcceptTool trusts a definition that waits.
func (s *admin) AcceptTool(ctx context.Context, req *tooldv1.AcceptToolRequest) (*tooldv1.AcceptToolResponse, error) {
	if err := required("tool", req.GetTool()); err != nil {
		return nil, err
	}
	if err := required("digest", req.GetDigest()); err != nil {
		return nil, err
	}
	t, err := s.admin.AcceptTool(principal(ctx).Principal, req.GetTool(), req.GetDigest())
	if err != nil {
		return nil, err
	}
	return &tooldv1.AcceptToolResponse{Tool: fromTool(t)}, nil
}
