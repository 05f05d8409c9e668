package view

import (
	"context"
	"errors"
	"io"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/calllog"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Artifacts reads the output streams and artifacts of calls. It may be used concurrently.
type Artifacts struct {
	Records *Records
	Spool   store.Spool
}

func (a *Artifacts) find(ctx context.Context, p tool.Principal, id, name string) (*calllog.Artifact, error) {
	c, err := a.Records.Get(ctx, p, id)
	if err != nil {
		return nil, err
	}
	return calllog.OpenArtifact(a.Spool, c, name)
}

// ReadArtifact returns a range of bytes of a call's output. name is an output stream or an artifact of the result.
func (a *Artifacts) ReadArtifact(ctx context.Context, p tool.Principal, id, name string, offset int64, limit int) (call.Part, error) {
	found, err := a.find(ctx, p, id, name)
	if err != nil {
		return call.Part{}, err
	}
	return found.Read(offset, limit)
}

// ReadLines returns a range of lines. See [calllog.Artifact.Lines].
func (a *Artifacts) ReadLines(ctx context.Context, p tool.Principal, id, name string, first, count int64, limit int) (call.Part, error) {
	found, err := a.find(ctx, p, id, name)
	if err != nil {
		return call.Part{}, err
	}
	return found.Lines(ctx, first, count, limit)
}

// SearchArtifact returns the lines that match a pattern. See [calllog.Artifact.Search].
func (a *Artifacts) SearchArtifact(ctx context.Context, p tool.Principal, id, name string, q call.Search) (call.Found, error) {
	found, err := a.find(ctx, p, id, name)
	if err != nil {
		return call.Found{}, err
	}
	return found.Search(ctx, q)
}

// An OpenArtifact is an artifact that a tool reads for its caller.
type OpenArtifact struct {
	io.ReaderAt
	Size int64 // size in bytes when it was opened
}

// OpenArtifact opens an output stream or artifact of an earlier call. reader is the call whose tool reads it. Both calls must have the same
// caller and act on behalf of the same person. Their threads must be the same, or one must be the parent of the other. For any other call
// the error is the same as for an unknown call.
func (a *Artifacts) OpenArtifact(ctx context.Context, reader *tool.Call, id, name string) (*OpenArtifact, error) {
	unknown := call.Refuse(call.NotFound, "ARTIFACT_NOT_FOUND", "no artifact %q of a call %q in this thread", name, id)
	c, err := a.Records.Get(ctx, reader.Caller, id)
	var refusal *call.Refusal
	if errors.As(err, &refusal) && refusal.Kind == call.NotFound {
		return nil, unknown
	}
	if err != nil {
		return nil, err
	}
	if c.Namespace != reader.Namespace || !Owns(reader.Caller, c) || c.OnBehalfOf != reader.OnBehalfOf || !related(c.Run, reader.Run) {
		return nil, unknown
	}
	found, err := calllog.OpenArtifact(a.Spool, c, name)
	if err != nil {
		return nil, err
	}
	return &OpenArtifact{found, found.Size()}, nil
}

// related reports whether two runs have the same thread, or one thread is the parent of the other.
func related(a, b tool.Run) bool {
	return a.Thread == b.Thread || a.Thread != "" && a.Thread == b.ParentThread || b.Thread != "" && b.Thread == a.ParentThread
}
