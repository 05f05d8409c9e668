package service

import (
	"cmp"
	"context"
	"math"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/translate"
)

// ListQuarantinedTools returns a page of the tools whose definitions wait to be accepted. An operator gets the tools of its namespace; an
// admin gets all.
func (s *admin) ListQuarantinedTools(ctx context.Context, req *tooldv1.ListQuarantinedToolsRequest) (*tooldv1.ListQuarantinedToolsResponse, error) {
	p := access.From(ctx)
	size := int(req.GetPageSize())
	if size < 0 {
		return nil, call.InvalidField("page_size", "is %d; 0 is %d", size, maxToolPage)
	}
	if size == 0 || size > maxToolPage {
		size = maxToolPage
	}
	if err := translate.Short("tool", req.GetTool(), translate.MaxFilter); err != nil {
		return nil, err
	}
	b := bind("quarantined", p.Namespace, p.Subject, req.GetTool())
	after, err := open(req.GetPageToken(), b)
	if err != nil {
		return nil, err
	}
	resp, bytes, last := &tooldv1.ListQuarantinedToolsResponse{}, 0, ""
	for _, q := range s.admin.Quarantined() {
		id := q.Waiting.Descriptor.ID
		if waitingKey(&q) <= string(after) || req.GetTool() != "" && req.GetTool() != id || !p.Oversees(q.Namespace) {
			continue
		}
		t := &tooldv1.QuarantinedTool{Trusted: translate.FromDescriptor(&q.Trusted.Descriptor, q.Trusted.Digest), Waiting: translate.FromDescriptor(&q.Waiting.Descriptor, q.Waiting.Digest)}
		t.Trusted.Id = cmp.Or(t.Trusted.GetId(), id)
		t.Since = timestamppb.New(q.Since)
		if t.RefusedBy = q.RefusedBy; !q.RefusedAt.IsZero() {
			t.RefusedAt = timestamppb.New(q.RefusedAt)
		}
		bytes += proto.Size(t)
		if n := len(resp.Tools); n == size || n > 0 && bytes > maxExport {
			resp.NextPageToken = seal([]byte(last), b)
			break
		}
		last = waitingKey(&q)
		resp.Tools = append(resp.Tools, t)
	}
	return resp, nil
}

// waitingKey returns the sort key of a quarantined tool. It includes the source, because two namespaces may have tools with the same id.
func waitingKey(q *tool.QuarantinedTool) string { return q.Waiting.Descriptor.ID + "\x00" + q.Source }

// AcceptTool trusts a definition that waits to be accepted. An operator may accept definitions of its namespace, and an admin may accept
// all definitions.
func (s *admin) AcceptTool(ctx context.Context, req *tooldv1.AcceptToolRequest) (*tooldv1.AcceptToolResponse, error) {
	p := access.From(ctx)
	q, err := s.answerable(p, req.GetTool(), req.GetDigest())
	if err != nil {
		return nil, err
	}
	t, err := s.admin.AcceptTool(p.Principal, q)
	if err != nil {
		return nil, err
	}
	return &tooldv1.AcceptToolResponse{Tool: translate.FromDescriptor(&t.Descriptor, t.Digest)}, nil
}

// RefuseTool refuses a definition that waits to be accepted. An operator may refuse definitions of its namespace, and an admin may refuse
// all definitions.
func (s *admin) RefuseTool(ctx context.Context, req *tooldv1.RefuseToolRequest) (*tooldv1.RefuseToolResponse, error) {
	p := access.From(ctx)
	q, err := s.answerable(p, req.GetTool(), req.GetDigest())
	if err != nil {
		return nil, err
	}
	if err := s.admin.RefuseTool(p.Principal, q); err != nil {
		return nil, err
	}
	return &tooldv1.RefuseToolResponse{}, nil
}

// answerable returns the definition with this digest in quarantine, if the principal may accept or refuse it.
func (s *admin) answerable(p *access.Identity, id, digest string) (*tool.QuarantinedTool, error) {
	if err := cmp.Or(translate.Required("tool", id), translate.Required("digest", digest)); err != nil {
		return nil, err
	}
	q, err := s.waiting(p, id, digest)
	if err == nil && q.Namespace == "" && !p.Has(access.Administrator) {
		return nil, call.Refuse(call.PermissionDenied, "ROLE_REQUIRED",
			"%q comes from %q, which serves every namespace: accepting or refusing it needs the role admin; %q has %v", id, q.Source, p.Subject, p.Roles)
	}
	return q, err
}

// waiting returns the definition with this digest that waits to be accepted.
func (s *admin) waiting(p *access.Identity, id, digest string) (*tool.QuarantinedTool, error) {
	err := call.Refuse(call.NotFound, "TOOL_NOT_QUARANTINED", "no definition of %q is in quarantine", id)
	for _, q := range s.admin.Quarantined() {
		if q.Waiting.Descriptor.ID != id || !p.Oversees(q.Namespace) {
			continue
		}
		if q.Waiting.Digest == digest {
			return &q, nil
		}
		err = call.Refuse(call.FailedPrecondition, "DIGEST_MISMATCH", "the definition in quarantine has the digest %s, not %s; read it again", q.Waiting.Digest, digest)
	}
	return nil, err
}

// ListDefinitions returns a page of the definitions of a tool that were trusted or refused.
func (s *admin) ListDefinitions(ctx context.Context, req *tooldv1.ListDefinitionsRequest) (*tooldv1.ListDefinitionsResponse, error) {
	p := access.From(ctx)
	size, err := pageSize(req.GetPageSize())
	if err := cmp.Or(err, translate.Required("tool", req.GetTool()), translate.Short("tool", req.GetTool(), translate.MaxFilter)); err != nil {
		return nil, err
	}
	source, id, err := s.origin(p, req.GetTool())
	if err != nil {
		return nil, err
	}
	b := bind("definitions", p.Namespace, p.Subject, source, id)
	before, err := openToken(req.GetPageToken(), b)
	if err != nil {
		return nil, err
	}
	all, next, err := s.admin.Judged(ctx, source, id, cmp.Or(before, math.MaxInt64), size)
	if err != nil {
		return nil, err
	}
	resp, bytes := &tooldv1.ListDefinitionsResponse{}, 0
	for i, d := range all {
		one := &tooldv1.JudgedDefinition{
			Definition: translate.FromDescriptor(&d.Descriptor, d.Digest), Time: timestamppb.New(d.Time), By: d.By, Refused: d.Refused,
		}
		one.Definition.Id = cmp.Or(one.Definition.GetId(), id)
		if bytes += proto.Size(one); i > 0 && bytes > maxExport {
			next = all[i-1].Position
			break
		}
		resp.Definitions = append(resp.Definitions, one)
	}
	resp.NextPageToken = sealToken(next, b)
	return resp, nil
}

// origin returns the source of a tool and the id that the source gave it, if the principal may see its definitions.
func (s *admin) origin(p *access.Identity, name string) (source, id string, err error) {
	if t, ok := s.tools.Lookup(p.Principal, name); ok && p.Has(access.Approver|access.Viewer|access.Operator) {
		return t.Descriptor.Source, t.Descriptor.OwnID(), nil
	}
	if p.Has(access.Operator | access.Administrator) {
		for _, q := range s.admin.Quarantined() {
			if q.Waiting.Descriptor.ID == name && p.Oversees(q.Namespace) {
				return q.Source, name, nil
			}
		}
	}
	return "", "", noTool(name)
}
