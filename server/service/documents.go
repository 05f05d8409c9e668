package service

import (
	"context"
	"strings"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/translate"
)

// Documents stores JSON values that hooks and tools keep under a scope.
type Documents interface {
	Document(ctx context.Context, p tool.Principal, scope tool.Scope, scopeID, key string) (tool.Document, error)
	// Documents returns the documents of a scope, sorted by key.
	Documents(ctx context.Context, p tool.Principal, scope tool.Scope, scopeID string) ([]tool.Document, error)
	// ChangeDocument executes a set or delete command and returns the new revision. The revision is 0 when a delete found no document.
	ChangeDocument(ctx context.Context, p tool.Principal, scopeID string, c tool.Command) (revision int64, err error)
}

type documents struct {
	tooldv1.UnsafeDocumentServiceServer
	documents Documents
}

// scopeRequest has the methods that all requests for documents share.
type scopeRequest interface {
	GetScope() tooldv1.DocumentScope
	GetScopeId() string
}

func toDocumentScope(req scopeRequest) (scope tool.Scope, err error) {
	switch req.GetScope() {
	case tooldv1.DocumentScope_DOCUMENT_SCOPE_RUN:
		scope = tool.RunScope
	case tooldv1.DocumentScope_DOCUMENT_SCOPE_THREAD:
		scope = tool.ThreadScope
	case tooldv1.DocumentScope_DOCUMENT_SCOPE_NAMESPACE:
		if req.GetScopeId() != "" {
			return "", call.InvalidField("scope_id", "must be empty: the namespace is the principal's")
		}
		return tool.NamespaceScope, nil
	case tooldv1.DocumentScope_DOCUMENT_SCOPE_UNSPECIFIED:
		return "", call.InvalidField("scope", "is required: RUN, THREAD or NAMESPACE")
	default:
		return "", translate.UnknownEnum("scope", int32(req.GetScope()))
	}
	if err := translate.Required("scope_id", req.GetScopeId()); err != nil {
		return "", err
	}
	return scope, translate.Short("scope_id", req.GetScopeId(), translate.MaxRunID)
}

// keyRequest has the methods that all requests for one document share.
type keyRequest interface {
	scopeRequest
	GetKey() string
}

func toDocumentKey(req keyRequest) (tool.Scope, error) {
	scope, err := toDocumentScope(req)
	if err == nil {
		err = translate.Required("key", req.GetKey())
	}
	if err == nil {
		err = translate.Short("key", req.GetKey(), call.MaxDocumentKey)
	}
	return scope, err
}

// GetDocument returns one document.
func (s *documents) GetDocument(ctx context.Context, req *tooldv1.GetDocumentRequest) (*tooldv1.GetDocumentResponse, error) {
	scope, err := toDocumentKey(req)
	if err != nil {
		return nil, err
	}
	d, err := s.documents.Document(ctx, access.From(ctx).Principal, scope, req.GetScopeId(), req.GetKey())
	if err != nil {
		return nil, err
	}
	return &tooldv1.GetDocumentResponse{Document: translate.FromDocument(&d)}, nil
}

// ListDocuments returns a page of the documents of a scope.
func (s *documents) ListDocuments(ctx context.Context, req *tooldv1.ListDocumentsRequest) (*tooldv1.ListDocumentsResponse, error) {
	scope, err := toDocumentScope(req)
	if err == nil {
		err = translate.Short("key_prefix", req.GetKeyPrefix(), call.MaxDocumentKey)
	}
	if err != nil {
		return nil, err
	}
	size, err := pageSize(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	p := access.From(ctx)
	bound := bind("documents", p.Namespace, p.Subject, string(scope), req.GetScopeId(), req.GetKeyPrefix())
	after, err := open(req.GetPageToken(), bound)
	if err != nil {
		return nil, err
	}
	docs, err := s.documents.Documents(ctx, p.Principal, scope, req.GetScopeId())
	if err != nil {
		return nil, err
	}
	resp, room := &tooldv1.ListDocumentsResponse{}, pageBytes
	for i := range docs {
		d := &docs[i]
		if d.Key <= string(after) || !strings.HasPrefix(d.Key, req.GetKeyPrefix()) {
			continue
		}
		if room -= len(d.Value); len(resp.Documents) == size || room < 0 && len(resp.Documents) > 0 {
			resp.NextPageToken = seal([]byte(resp.Documents[len(resp.Documents)-1].GetKey()), bound)
			return resp, nil
		}
		resp.Documents = append(resp.Documents, translate.FromDocument(d))
	}
	return resp, nil
}

// PutDocument sets a document.
func (s *documents) PutDocument(ctx context.Context, req *tooldv1.PutDocumentRequest) (*tooldv1.PutDocumentResponse, error) {
	scope, err := toDocumentKey(req)
	if err == nil {
		err = checkRevision(req.ExpectedRevision)
	}
	if err != nil {
		return nil, err
	}
	if _, err := call.ParseJSON(req.GetValue(), 0); err != nil {
		return nil, call.InvalidField("value", "is not JSON: %v", err)
	}
	c := tool.Command{Op: tool.OpSet, Scope: scope, Key: req.GetKey(), Value: req.GetValue(), Expected: req.ExpectedRevision}
	revision, err := s.documents.ChangeDocument(ctx, access.From(ctx).Principal, req.GetScopeId(), c)
	if err != nil {
		return nil, err
	}
	return &tooldv1.PutDocumentResponse{Revision: revision}, nil
}

// DeleteDocument removes a document.
func (s *documents) DeleteDocument(ctx context.Context, req *tooldv1.DeleteDocumentRequest) (*tooldv1.DeleteDocumentResponse, error) {
	scope, err := toDocumentKey(req)
	if err == nil {
		err = checkRevision(req.ExpectedRevision)
	}
	if err != nil {
		return nil, err
	}
	c := tool.Command{Op: tool.OpDelete, Scope: scope, Key: req.GetKey(), Expected: req.ExpectedRevision}
	revision, err := s.documents.ChangeDocument(ctx, access.From(ctx).Principal, req.GetScopeId(), c)
	if err != nil {
		return nil, err
	}
	return &tooldv1.DeleteDocumentResponse{Deleted: revision > 0}, nil
}

func checkRevision(expected *int64) error {
	if expected != nil && *expected < 0 {
		return call.InvalidField("expected_revision", "must not be negative")
	}
	return nil
}

// ListDeadLetters returns a page of the actions that failed in all their attempts.
func (s *admin) ListDeadLetters(ctx context.Context, req *tooldv1.ListDeadLettersRequest) (*tooldv1.ListDeadLettersResponse, error) {
	size, err := pageSize(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	p := access.From(ctx)
	bound := bind("dead letters", p.Namespace, p.Subject)
	after, err := openToken(req.GetPageToken(), bound)
	if err != nil {
		return nil, err
	}
	dead, err := s.letters.DeadLetters(ctx, p.Principal, after, size+1)
	if err != nil {
		return nil, err
	}
	resp, room := &tooldv1.ListDeadLettersResponse{}, pageBytes
	for i := range dead {
		if room -= len(dead[i].Payload); i == size || room < 0 && i > 0 {
			resp.NextPageToken = sealToken(dead[i-1].Position, bound)
			break
		}
		resp.DeadLetters = append(resp.DeadLetters, translate.FromDeadLetter(&dead[i]))
	}
	return resp, nil
}

// RetryDeadLetter queues an action again.
func (s *admin) RetryDeadLetter(ctx context.Context, req *tooldv1.RetryDeadLetterRequest) (*tooldv1.RetryDeadLetterResponse, error) {
	if err := translate.Required("action_id", req.GetActionId()); err != nil {
		return nil, err
	}
	if err := translate.Short("action_id", req.GetActionId(), maxRuleID); err != nil {
		return nil, err
	}
	d, err := s.letters.RetryDeadLetter(ctx, access.From(ctx).Principal, req.GetActionId())
	if err != nil {
		return nil, err
	}
	return &tooldv1.RetryDeadLetterResponse{DeadLetter: translate.FromDeadLetter(d)}, nil
}
