package service

import (
	"context"
	"path/filepath"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/translate"
)

const maxNamed = 1000 // maximum number of call ids in one request

func fewIDs(ids []string) error {
	if n := len(ids); n > maxNamed {
		return call.InvalidField("call_ids", "has %d ids; at most %d are accepted", n, maxNamed)
	}
	return nil
}

func trues(all ...bool) (n int) {
	for _, b := range all {
		if b {
			n++
		}
	}
	return n
}

// Backup writes a copy of the store into a new directory.
func (s *admin) Backup(ctx context.Context, req *tooldv1.BackupRequest) (*tooldv1.BackupResponse, error) {
	if !filepath.IsAbs(req.GetDirectory()) {
		return nil, call.InvalidField("directory", "is required: an absolute path on the daemon's machine")
	}
	b, err := s.admin.Backup(ctx, access.From(ctx).Principal, req.GetDirectory())
	if err != nil {
		return nil, err
	}
	return &tooldv1.BackupResponse{Calls: b.Calls, Files: int64(b.Files), Bytes: b.Bytes}, nil
}

// ReleaseCalls continues or cancels the held calls of a store that was copied or restored.
func (s *admin) ReleaseCalls(ctx context.Context, req *tooldv1.ReleaseCallsRequest) (*tooldv1.ReleaseCallsResponse, error) {
	if err := translate.Short("reason", req.GetReason(), translate.MaxReason); err != nil {
		return nil, err
	}
	if trues(req.GetAll(), req.GetRunId() != "", req.GetThreadId() != "", len(req.GetCallIds()) > 0) != 1 {
		return nil, call.InvalidField("all", "name exactly one of all, run_id, thread_id and call_ids")
	}
	if err := fewIDs(req.GetCallIds()); err != nil {
		return nil, err
	}
	which := call.HeldSelector{All: req.GetAll(), Run: req.GetRunId(), Thread: req.GetThreadId(), IDs: req.GetCallIds()}
	released, held, err := s.engine.Release(ctx, access.From(ctx).Principal, which, req.GetEnd(), req.GetReason())
	if err != nil {
		return nil, err
	}
	return &tooldv1.ReleaseCallsResponse{Released: int64(released), Held: int64(held)}, nil
}
