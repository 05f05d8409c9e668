package service

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
)

// CountToolCalls counts the newest calls that the principal may see, by tool. It reads stored calls, because there are no counters for this
// purpose: the metrics have no namespace, and a counter for each caller would make each call slower.
func (s *tools) CountToolCalls(ctx context.Context, _ *tooldv1.CountToolCallsRequest) (*tooldv1.CountToolCallsResponse, error) {
	p := access.From(ctx).Principal
	resp, byTool := &tooldv1.CountToolCallsResponse{}, map[string]*tooldv1.ToolCalls{}
	q := call.Query{Limit: maxPage}
	for range call.MaxScan / maxPage {
		page, err := s.engine.List(ctx, p, q)
		if err != nil {
			return nil, err
		}
		for _, c := range page.Calls {
			if byTool[c.Tool] == nil {
				byTool[c.Tool] = &tooldv1.ToolCalls{Tool: c.Tool, Newest: timestamppb.New(c.Created)}
			}
			add(byTool[c.Tool], c)
			resp.Counted++
			resp.Since = timestamppb.New(c.Created)
		}
		if q.After = page.Next; q.After == 0 {
			break
		}
	}
	resp.More = q.After != 0
	for _, id := range slices.Sorted(maps.Keys(byTool)) {
		resp.Tools = append(resp.Tools, byTool[id])
	}
	return resp, nil
}

func add(t *tooldv1.ToolCalls, c *call.Call) {
	t.Calls++
	switch {
	case c.Status != call.Failed:
	case c.Result != nil && c.Result.Error != nil && c.Result.Error.Code == tool.Denied:
		t.Denied++
	default:
		t.Failed++
	}
}
