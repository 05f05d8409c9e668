package service

import (
	"context"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
)

// Purge erases the content of ended calls.
func (s *admin) Purge(ctx context.Context, req *tooldv1.PurgeRequest) (*tooldv1.PurgeResponse, error) {
	if trues(req.GetRunId() != "", req.GetThreadId() != "", len(req.GetCallIds()) > 0) != 1 {
		return nil, call.InvalidField("call_ids", "name exactly one of call_ids, run_id and thread_id")
	}
	if err := fewIDs(req.GetCallIds()); err != nil {
		return nil, err
	}
	which := call.PurgeSelector{IDs: req.GetCallIds(), Run: req.GetRunId(), Thread: req.GetThreadId()}
	purged, before, err := s.engine.Purge(ctx, access.From(ctx).Principal, which)
	if err != nil {
		return nil, err
	}
	return &tooldv1.PurgeResponse{Purged: int64(purged), WithoutContent: int64(before)}, nil
}
