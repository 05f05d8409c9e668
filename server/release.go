package server

import (
	"context"
	"path/filepath"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const maxReleased = 1000 // ids of one request

// Backup writes a copy of the store.
func (s *admin) Backup(ctx context.Context, req *tooldv1.BackupRequest) (*tooldv1.BackupResponse, error) {
	if !filepath.IsAbs(req.GetDirectory()) {
		return nil, call.InvalidField("directory", "is required: an absolute path on the daemon's machine")
	}
	b, err := s.admin.Backup(ctx, principal(ctx).Principal, req.GetDirectory())
	if err != nil {
		return nil, err
	}
	return &tooldv1.BackupResponse{Calls: b.Calls, Files: b.Files, Bytes: b.Bytes}, nil
}

// ReleaseCalls carries on calls of a store that was copied or restored, or ends them.
func (s *admin) ReleaseCalls(ctx context.Context, req *tooldv1.ReleaseCallsRequest) (*tooldv1.ReleaseCallsResponse, error) {
	if err := short("reason", req.GetReason(), maxReason); err != nil {
		return nil, err
	}
	named := 0
	for _, set := range []bool{req.GetAll(), req.GetRunId() != "", req.GetThreadId() != "", len(req.GetCallIds()) > 0} {
		if set {
			named++
		}
	}
	if named != 1 {
		return nil, call.InvalidField("all", "name exactly one of all, run_id, thread_id and call_ids")
	}
	if n := len(req.GetCallIds()); n > maxReleased {
		return nil, call.InvalidField("call_ids", "has %d ids; at most %d are accepted", n, maxReleased)
	}
	which := HeldSelector{All: req.GetAll(), Run: req.GetRunId(), Thread: req.GetThreadId(), IDs: req.GetCallIds()}
	released, held, err := s.engine.Release(ctx, principal(ctx).Principal, which, req.GetEnd(), req.GetReason())
	if err != nil {
		return nil, err
	}
	return &tooldv1.ReleaseCallsResponse{Released: int64(released), Held: int64(held)}, nil
}
