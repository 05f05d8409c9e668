package service

import (
	"context"
	"slices"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/translate"
)

// ListSources returns the sources of the tools of the principal's namespace; an admin gets all sources.
func (s *admin) ListSources(ctx context.Context, _ *tooldv1.ListSourcesRequest) (*tooldv1.ListSourcesResponse, error) {
	id := access.From(ctx)
	all := slices.DeleteFunc(s.admin.Sources(), func(o tool.SourceStatus) bool { return !id.Oversees(o.Namespace) })
	resp := &tooldv1.ListSourcesResponse{Sources: translate.Each(all, fromSource)}
	if !id.Has(access.Operator | access.Administrator) {
		for _, o := range resp.Sources {
			o.Address, o.Error, o.Refused = "", "", nil // As for hooks, viewers do not see paths, addresses and texts of programs.
		}
	}
	return resp, nil
}

func fromSource(o *tool.SourceStatus) *tooldv1.Source {
	return &tooldv1.Source{
		Name: o.Name, State: tooldv1.SourceState(tooldv1.SourceState_value["SOURCE_STATE_"+string(o.State)]), Since: translate.FromTime(o.Since), Tools: int32(o.Tools), Starts: int32(o.Starts),
		Address: o.Address, Server: o.Server, Protocol: o.Protocol, Trust: o.Trust, Error: o.Error,
		Refused: translate.Each(o.Refused, func(r *tool.RefusedTool) *tooldv1.RefusedTool {
			return &tooldv1.RefusedTool{Name: r.Name, Reason: r.Reason}
		}),
	}
}
