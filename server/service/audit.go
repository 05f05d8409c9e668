package service

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
)

// ReadAudit returns a page of the chain of audit records.
func (s *admin) ReadAudit(ctx context.Context, req *tooldv1.ReadAuditRequest) (*tooldv1.ReadAuditResponse, error) {
	limit := int(req.GetPageSize())
	switch {
	case limit < 0:
		return nil, call.InvalidField("page_size", "is %d; want 0 or more", limit)
	case req.GetAfter() < 0:
		return nil, call.InvalidField("after", "is %d; 0 is the beginning", req.GetAfter())
	case limit == 0:
		limit = 500
	}
	records, kept, err := s.admin.Audit(ctx, access.From(ctx).Namespace, req.GetAfter(), min(limit, 1000))
	if err != nil {
		return nil, err
	}
	resp := &tooldv1.ReadAuditResponse{KeptSince: timestamppb.New(kept)}
	for _, r := range records {
		resp.Records = append(resp.Records, &tooldv1.AuditRecord{
			Position: r.Position, Time: timestamppb.New(r.Time), Key: r.Key, CallId: r.CallID, Link: r.Link, Record: r.Record,
		})
	}
	return resp, nil
}
