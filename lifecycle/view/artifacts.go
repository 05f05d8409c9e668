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

// Artifacts reads what calls printed or saved. It may be used concurrently.
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

// ReadArtifact returns a range of what a call printed or saved: name is a stream or an artifact of its result.
func (a *Artifacts) ReadArtifact(ctx context.Context, p tool.Principal, id, name string, offset int64, limit int) (call.Part, error) {
	found, err := a.find(ctx, p, id, name)
	if err != nil {
		return call.Part{}, err
	}
	return found.Read(offset, limit)
}

// ReadLines returns lines in place of a range: see [calllog.Artifact.Lines].
func (a *Artifacts) ReadLines(ctx context.Context, p tool.Principal, id, name string, first, count int64, limit int) (call.Part, error) {
	found, err := a.find(ctx, p, id, name)
	if err != nil {
		return call.Part{}, err
	}
	return found.Lines(ctx, first, count, limit)
}

// SearchArtifact returns the lines that match a pattern: see [calllog.Artifact.Search].
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
	Size int64 // when it was opened
}

// OpenArtifact opens what an earlier call printed or saved for a tool that runs for reader: a call of the same caller, on
// behalf of the same person, in the same thread or in one that is the parent of the other. Any other call has no artifact,
// as one that does not exist.
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

// related reports whether two runs are of one conversation: of one thread, or of a thread and one that it began.
func related(a, b tool.Run) bool {
	return a.Thread == b.Thread || a.Thread != "" && a.Thread == b.ParentThread || b.Thread != "" && b.Thread == a.ParentThread
}
