package lifecycle

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Get returns a call as it stands.
func (e *Engine) Get(ctx context.Context, p tool.Principal, id string) (*call.Call, error) {
	l, err := e.acquireVisible(ctx, p, id)
	if err != nil {
		return nil, err
	}
	defer l.release()
	return shown(p, l.snapshot()), nil
}

// List returns a page of calls. Whoever may not look at others' calls gets its own; approvers get what waits for them.
func (e *Engine) List(ctx context.Context, p tool.Principal, q store.Query) (store.Page, error) {
	e.settle()
	q.Namespace = p.Namespace
	all := hasRole(p, "viewer") || hasRole(p, "operator") || hasRole(p, "approver") && len(q.Statuses) == 1 && q.Statuses[0] == call.Suspended
	if !all {
		q.Caller = p.Subject
	}
	page, err := e.store.Calls(ctx, q)
	for i, c := range page.Calls {
		page.Calls[i] = shown(p, c)
	}
	return page, err
}

// A Part is a range of an artifact.
type Part struct {
	Bytes []byte
	Size  int64 // of the whole, by now
	EOF   bool
	// MIMEType is what the call's result says of it; "" for a stream.
	MIMEType string
}

// ReadArtifact returns a range of what a call printed or saved: name is a stream or an artifact of its result.
func (e *Engine) ReadArtifact(ctx context.Context, p tool.Principal, id, name string, offset int64, limit int) (Part, error) {
	c, err := e.Get(ctx, p, id)
	if err != nil {
		return Part{}, err
	}
	spool := e.store.Spool()
	size, err := spool.Size(c.Key(), name)
	if errors.Is(err, store.ErrNotFound) {
		return Part{}, call.Refuse(call.NotFound, "ARTIFACT_NOT_FOUND", "call %q has no artifact %q%s", id, name, named(c))
	}
	if err != nil {
		return Part{}, err
	}
	if offset < 0 || offset > size {
		return Part{}, call.Refuse(call.OutOfRange, "OFFSET_OUT_OF_RANGE", "offset %d is outside of the %d bytes that there are", offset, size)
	}
	b := make([]byte, min(int64(limit), size-offset))
	n, err := spool.ReadAt(c.Key(), name, b, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return Part{}, err
	}
	return Part{Bytes: b[:n], Size: size, MIMEType: mimeType(c, name), EOF: c.Status.Terminal() && offset+int64(n) == size}, nil
}

func named(c *call.Call) string {
	if c.Result == nil || len(c.Result.Artifacts) == 0 {
		return ""
	}
	var names []string
	for _, a := range c.Result.Artifacts {
		names = append(names, a.Name)
	}
	return "; it has " + strings.Join(names, ", ")
}

func mimeType(c *call.Call, name string) string {
	if c.Result == nil {
		return ""
	}
	for _, a := range c.Result.Artifacts {
		if a.Name == name {
			return a.MIMEType
		}
	}
	return ""
}
