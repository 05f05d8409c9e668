package service

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/proto"

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

// AcceptTool trusts a definition that waits to be accepted. An operator may accept definitions of its namespace; an admin may accept all.
func (s *admin) AcceptTool(ctx context.Context, req *tooldv1.AcceptToolRequest) (*tooldv1.AcceptToolResponse, error) {
	if err := translate.Required("tool", req.GetTool()); err != nil {
		return nil, err
	}
	if err := translate.Required("digest", req.GetDigest()); err != nil {
		return nil, err
	}
	p := access.From(ctx)
	q, err := s.waiting(p, req.GetTool(), req.GetDigest())
	if err != nil {
		return nil, err
	}
	if q.Namespace == "" && !p.Has(access.Administrator) {
		return nil, call.Refuse(call.PermissionDenied, "ROLE_REQUIRED",
			"%q comes from %q, which serves every namespace: accepting it needs the role admin; %q has %v", req.GetTool(), q.Source, p.Subject, p.Roles)
	}
	t, err := s.admin.AcceptTool(p.Principal, q)
	if err != nil {
		return nil, err
	}
	return &tooldv1.AcceptToolResponse{Tool: translate.FromDescriptor(&t.Descriptor, t.Digest)}, nil
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
