package grpcserver

import (
	"context"
	"slices"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/translate"
)

// A SourceState is where a source stands.
type SourceState int

// The states, in the order of the API.
const (
	SourceConnecting SourceState = iota + 1
	SourceReady
	SourceDown
)

// A Source is where tools come from.
type Source struct {
	Name                             string
	Namespace                        string // whose callers have its tools; "": all
	State                            SourceState
	Since                            time.Time // zero: it comes with the daemon
	Tools, Starts                    int
	Address, Server, Protocol, Trust string
	Error                            string
	Refused                          []RefusedTool
}

// A RefusedTool is not taken.
type RefusedTool struct{ Name, Reason string }

// ListSources returns where the tools of the principal's namespace come from; an admin gets all sources.
func (s *admin) ListSources(ctx context.Context, _ *tooldv1.ListSourcesRequest) (*tooldv1.ListSourcesResponse, error) {
	id := access.From(ctx)
	all := slices.DeleteFunc(s.admin.Sources(), func(o Source) bool { return !id.Oversees(o.Namespace) })
	return &tooldv1.ListSourcesResponse{Sources: translate.Each(all, func(o *Source) *tooldv1.Source {
		return &tooldv1.Source{
			Name: o.Name, State: tooldv1.SourceState(o.State), Since: translate.FromTime(o.Since), Tools: int32(o.Tools), Starts: int32(o.Starts),
			Address: o.Address, Server: o.Server, Protocol: o.Protocol, Trust: o.Trust, Error: o.Error,
			Refused: translate.Each(o.Refused, func(r *RefusedTool) *tooldv1.RefusedTool { return &tooldv1.RefusedTool{Name: r.Name, Reason: r.Reason} }),
		}
	})}, nil
}
