package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// Artifacts gives the file tools access to the output and the artifacts of calls. It is a function that returns the engine, because the
// tools are created before the engine.
type Artifacts func() *lifecycle.Engine

// OpenArtifact opens an artifact for the call that reads it.
func (engine Artifacts) OpenArtifact(ctx context.Context, reader *tool.Call, id, name string) (io.ReaderAt, int64, error) {
	a, err := engine().Artifacts().OpenArtifact(ctx, reader, id, name)
	var refusal *call.Refusal
	if errors.As(err, &refusal) && refusal.Kind == call.NotFound {
		return nil, 0, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, 0, err
	}
	return a, a.Size, nil
}
