package service

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/translate"
)

// Audit reads and verifies the audit chains. Its errors are those of the API.
type Audit interface {
	// Audit returns a page of the records of a namespace.
	Audit(ctx context.Context, namespace string, q AuditQuery) (AuditPage, error)
	// VerifyAudit verifies a part of the chain of a namespace.
	VerifyAudit(ctx context.Context, namespace string, from AuditStart) (AuditPart, error)
	// AuditCheckpoints returns at most limit checkpoints of a namespace with positions below before, the newest first.
	AuditCheckpoints(namespace string, before int64, limit int) ([]AuditCheckpoint, error)
	// AuditKinds lists the kinds of records.
	AuditKinds() []string
}

// An AuditQuery selects a page of records. The zero position means one end of the chain: the newest record with NewestFirst, otherwise the
// oldest.
type AuditQuery struct {
	Position    int64 // the page has the records after this position, or before it if NewestFirst is set
	NewestFirst bool
	Limit       int

	Principal, CallID         string
	Kinds                     []string
	StoredAfter, StoredBefore time.Time
}

// An AuditPage is a page of records.
type AuditPage struct {
	Records []call.ChainRecord
	Next    int64     // position where the next page begins; 0 when there are no more records
	Kept    time.Time // retention has not removed any record that is newer than this time
}

// An AuditStart says where a verification begins.
type AuditStart struct {
	After          int64
	Link           []byte // link of the record at position After
	FromCheckpoint bool
	Checkpoints    string // lines of a file of checkpoints
}

// An AuditPart is the result for a part of a chain.
type AuditPart struct {
	Records, Compared int
	From, To          time.Time
	Position          int64
	Link              []byte
	Done, Trimmed     bool
	Newest            *AuditCheckpoint // newest checkpoint that was compared, or nil
	Findings          []AuditFinding
}

// An AuditFinding is a defect of a chain.
type AuditFinding struct {
	Kind     string
	Position int64
	Text     string
}

// An AuditCheckpoint is the signed end of a chain.
type AuditCheckpoint struct {
	Position  int64
	Link, Key []byte
	Time      time.Time
	Line      string
}

const (
	maxAuditPage      = 1000
	maxCheckpointPage = 100
	maxCheckpoints    = 1 << 20 // bytes of a file of checkpoints in a request
)

// ReadAudit returns a page of the chain of audit records.
func (s *admin) ReadAudit(ctx context.Context, req *tooldv1.ReadAuditRequest) (*tooldv1.ReadAuditResponse, error) {
	q, err := s.auditQuery(req)
	if err != nil {
		return nil, err
	}
	page, err := s.admin.Audit(ctx, access.From(ctx).Namespace, q)
	if err != nil {
		return nil, err
	}
	resp := &tooldv1.ReadAuditResponse{KeptSince: timestamppb.New(page.Kept), NextPosition: page.Next}
	for _, r := range page.Records {
		resp.Records = append(resp.Records, &tooldv1.AuditRecord{
			Position: r.Position, Time: timestamppb.New(r.Time), Key: r.Key, CallId: r.CallID, Link: r.Link, Record: r.Record,
		})
	}
	return resp, nil
}

func (s *admin) auditQuery(req *tooldv1.ReadAuditRequest) (q AuditQuery, err error) {
	q = AuditQuery{
		Position: max(req.GetAfter(), req.GetBefore()), NewestFirst: req.GetNewestFirst(), Limit: int(req.GetPageSize()),
		Principal: req.GetPrincipal(), CallID: req.GetCallId(), Kinds: req.GetKinds(),
	}
	switch {
	case q.Limit < 0:
		return q, call.InvalidField("page_size", "is %d; want 0 or more", q.Limit)
	case req.GetAfter() < 0:
		return q, call.InvalidField("after", "is %d; 0 is the beginning", req.GetAfter())
	case req.GetBefore() < 0:
		return q, call.InvalidField("before", "is %d; 0 begins with the newest record", req.GetBefore())
	case q.NewestFirst && req.GetAfter() > 0:
		return q, call.InvalidField("after", "must not be set with newest_first; use before")
	case !q.NewestFirst && req.GetBefore() > 0:
		return q, call.InvalidField("before", "needs newest_first")
	case q.Limit == 0:
		q.Limit = maxAuditPage / 2
	}
	q.Limit = min(q.Limit, maxAuditPage)
	if err := translate.Few("kinds", len(q.Kinds), maxFilters); err != nil {
		return q, err
	}
	for _, k := range q.Kinds {
		if kinds := s.admin.AuditKinds(); !slices.Contains(kinds, k) {
			return q, call.InvalidField("kinds", "%q is no kind of record; want one of %s", clip(k, shortText), strings.Join(kinds, ", "))
		}
	}
	if err := translate.Short("principal", q.Principal, translate.MaxFilter); err != nil {
		return q, err
	}
	if err := translate.Short("call_id", q.CallID, translate.MaxFilter); err != nil {
		return q, err
	}
	q.StoredAfter, q.StoredBefore, err = translate.ToTimes("stored_after", req.GetStoredAfter(), "stored_before", req.GetStoredBefore())
	return q, err
}

// VerifyAudit verifies a part of the chain of audit records.
func (s *admin) VerifyAudit(ctx context.Context, req *tooldv1.VerifyAuditRequest) (*tooldv1.VerifyAuditResponse, error) {
	switch n := len(req.GetLink()); {
	case req.GetAfter() < 0:
		return nil, call.InvalidField("after", "is %d; 0 is the beginning", req.GetAfter())
	case req.GetAfter() > 0 && req.GetFromCheckpoint():
		return nil, call.InvalidField("from_checkpoint", "must not be set with after")
	case req.GetAfter() > 0 && n != call.LinkSize:
		return nil, call.InvalidField("link", "has %d bytes; with after, send position and link of the response before, which has %d bytes", n, call.LinkSize)
	case req.GetAfter() == 0 && n > 0:
		return nil, call.InvalidField("link", "must not be set without after")
	}
	if err := translate.Short("checkpoints", req.GetCheckpoints(), maxCheckpoints); err != nil {
		return nil, err
	}
	part, err := s.admin.VerifyAudit(ctx, access.From(ctx).Namespace, AuditStart{
		After: req.GetAfter(), Link: req.GetLink(), FromCheckpoint: req.GetFromCheckpoint(), Checkpoints: req.GetCheckpoints(),
	})
	if err != nil {
		return nil, err
	}
	resp := &tooldv1.VerifyAuditResponse{
		Records: int64(part.Records), From: translate.FromTime(part.From), To: translate.FromTime(part.To), Position: part.Position, Link: part.Link,
		Done: part.Done, Checkpoints: int32(part.Compared), Trimmed: part.Trimmed,
		Findings: translate.Each(part.Findings, func(f *AuditFinding) *tooldv1.AuditFinding {
			return &tooldv1.AuditFinding{Kind: f.Kind, Position: f.Position, Text: f.Text}
		}),
	}
	if part.Newest != nil {
		resp.Newest = fromCheckpoint(part.Newest)
	}
	return resp, nil
}

// ListAuditCheckpoints returns a page of the signed checkpoints.
func (s *admin) ListAuditCheckpoints(ctx context.Context, req *tooldv1.ListAuditCheckpointsRequest) (*tooldv1.ListAuditCheckpointsResponse, error) {
	size := int(req.GetPageSize())
	switch {
	case size < 0:
		return nil, call.InvalidField("page_size", "is %d; 0 is %d", size, maxCheckpointPage)
	case req.GetBefore() < 0:
		return nil, call.InvalidField("before", "is %d; 0 begins with the newest checkpoint", req.GetBefore())
	case size == 0 || size > maxCheckpointPage:
		size = maxCheckpointPage
	}
	all, err := s.admin.AuditCheckpoints(access.From(ctx).Namespace, req.GetBefore(), size)
	if err != nil {
		return nil, err
	}
	return &tooldv1.ListAuditCheckpointsResponse{Checkpoints: translate.Each(all, fromCheckpoint)}, nil
}

func fromCheckpoint(c *AuditCheckpoint) *tooldv1.AuditCheckpoint {
	return &tooldv1.AuditCheckpoint{Position: c.Position, Link: c.Link, Time: translate.FromTime(c.Time), Key: c.Key, Line: c.Line}
}
