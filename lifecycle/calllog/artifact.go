package calllog

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// An Artifact is stored output of a call. Its size is fixed when it is opened, although the output may grow while the call runs.
type Artifact struct {
	spool    store.Spool
	key      call.Key
	name     string
	size     int64
	mimeType string
	ended    bool // the output is complete
}

// Size returns the size in bytes.
func (a *Artifact) Size() int64 { return a.size }

// ReadAt implements [io.ReaderAt].
func (a *Artifact) ReadAt(p []byte, off int64) (int, error) {
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

// part returns the bytes from offset to offset+limit, or fewer at the end of the artifact.
func (a *Artifact) part(offset, limit int64) (call.Part, error) {
	b := make([]byte, min(limit, a.size-offset))
	n, err := a.ReadAt(b, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return call.Part{}, err
	}
	return call.Part{Bytes: b[:n], Size: a.size, Offset: offset, MIMEType: a.mimeType, EOF: a.ended && offset+int64(n) == a.size}, nil
}

// OpenArtifact opens an output stream of a call, or an artifact of its result, by name.
func OpenArtifact(spool store.Spool, c *call.Call, name string) (*Artifact, error) {
	size, err := spool.Size(c.Key(), name)
	if errors.Is(err, store.ErrNotFound) && has(c, name) {
		return nil, call.Refuse(call.NotFound, "ARTIFACT_ELSEWHERE", "artifact %q of call %q is not on this machine: a daemon on another one wrote it", name, c.ID)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil, call.Refuse(call.NotFound, "ARTIFACT_NOT_FOUND", "call %q has no artifact %q%s", c.ID, name, named(c))
	}
	if err != nil {
		return nil, err
	}
	return &Artifact{spool: spool, key: c.Key(), name: name, size: size, mimeType: mimeType(c, name), ended: c.Status.Terminal()}, nil
}

// Read returns at most limit bytes from offset.
func (a *Artifact) Read(offset int64, limit int) (call.Part, error) {
	if offset < 0 || offset > a.size {
		return call.Part{}, call.Refuse(call.OutOfRange, "OFFSET_OUT_OF_RANGE", "offset %d is beyond the end; there are %d bytes", offset, a.size)
	}
	return a.part(offset, int64(limit))
}

// has reports whether the record of a call lists an artifact with this name.
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
