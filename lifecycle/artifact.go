package lifecycle

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// An artifact is stored output of a call. It may grow while its call runs.
type artifact struct {
	spool    store.Spool
	key      call.Key
	name     string
	size     int64
	mimeType string
	ended    bool // nothing will follow
}

// ReadAt reads as [io.ReaderAt] does, to what the size was when it was opened.
func (a *artifact) ReadAt(p []byte, off int64) (int, error) {
	if off >= a.size {
		return 0, io.EOF
	}
	short := int64(len(p)) > a.size-off
	if short {
		p = p[:a.size-off]
	}
	n, err := a.spool.ReadAt(a.key, a.name, p, off)
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// part is the range [offset, offset+limit), as far as there is one.
func (a *artifact) part(offset, limit int64) (call.Part, error) {
	b := make([]byte, min(limit, a.size-offset))
	n, err := a.ReadAt(b, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return call.Part{}, err
	}
	return call.Part{Bytes: b[:n], Size: a.size, Offset: offset, MIMEType: a.mimeType, EOF: a.ended && offset+int64(n) == a.size}, nil
}

func (e *Engine) artifactOf(c *call.Call, name string) (*artifact, error) {
	size, err := e.spool.Size(c.Key(), name)
	if errors.Is(err, store.ErrNotFound) && has(c, name) {
		return nil, call.Refuse(call.NotFound, "ARTIFACT_ELSEWHERE", "artifact %q of call %q is not on this machine: a daemon on another one wrote it", name, c.ID)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil, call.Refuse(call.NotFound, "ARTIFACT_NOT_FOUND", "call %q has no artifact %q%s", c.ID, name, named(c))
	}
	if err != nil {
		return nil, err
	}
	return &artifact{spool: e.spool, key: c.Key(), name: name, size: size, mimeType: mimeType(c, name), ended: c.Status.Terminal()}, nil
}

func (e *Engine) visibleArtifact(ctx context.Context, p tool.Principal, id, name string) (*artifact, error) {
	c, err := e.Get(ctx, p, id)
	if err != nil {
		return nil, err
	}
	return e.artifactOf(c, name)
}

// ReadArtifact returns a range of what a call printed or saved: name is a stream or an artifact of its result.
func (e *Engine) ReadArtifact(ctx context.Context, p tool.Principal, id, name string, offset int64, limit int) (call.Part, error) {
	a, err := e.visibleArtifact(ctx, p, id, name)
	if err != nil {
		return call.Part{}, err
	}
	if offset < 0 || offset > a.size {
		return call.Part{}, call.Refuse(call.OutOfRange, "OFFSET_OUT_OF_RANGE", "offset %d is outside of the %d bytes that there are", offset, a.size)
	}
	return a.part(offset, int64(limit))
}

// An OpenArtifact is an artifact that a tool reads for its caller.
type OpenArtifact struct {
	io.ReaderAt
	Size int64 // when it was opened
}

// OpenArtifact opens what an earlier call printed or saved for a tool that runs for reader: a call of the same caller, on
// behalf of the same person, in the same thread or in one that is the parent of the other. Any other call has no artifact,
// as one that does not exist.
func (e *Engine) OpenArtifact(ctx context.Context, reader *tool.Call, id, name string) (*OpenArtifact, error) {
	unknown := call.Refuse(call.NotFound, "ARTIFACT_NOT_FOUND", "no artifact %q of a call %q in this thread", name, id)
	c, err := e.Get(ctx, reader.Caller, id)
	var refusal *call.Refusal
	if errors.As(err, &refusal) && refusal.Kind == call.NotFound {
		return nil, unknown
	}
	if err != nil {
		return nil, err
	}
	if c.Namespace != reader.Namespace || !view.Owns(reader.Caller, c) || c.OnBehalfOf != reader.OnBehalfOf || !related(c.Run, reader.Run) {
		return nil, unknown
	}
	a, err := e.artifactOf(c, name)
	if err != nil {
		return nil, err
	}
	return &OpenArtifact{a, a.size}, nil
}

// related reports whether two runs are of one conversation: of one thread, or of a thread and one that it began.
func related(a, b tool.Run) bool {
	return a.Thread == b.Thread || a.Thread != "" && a.Thread == b.ParentThread || b.Thread != "" && b.Thread == a.ParentThread
}

// has reports whether the record of a call names an artifact.
func has(c *call.Call, name string) bool {
	return c.Result != nil && slices.ContainsFunc(c.Result.Artifacts, func(a tool.Artifact) bool { return a.Name == name })
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
