package httpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/service"
)

// artifact sends the output of a call as a file. A hostile tool may have written it, so no browser may show it as a page of this origin. It
// is therefore an attachment without a known type, and its Content-Security-Policy allows no script.
func (s *Server) artifact(w http.ResponseWriter, r *http.Request) {
	a := &artifactReader{ctx: r.Context(), service: s.cfg.Service, call: r.PathValue("call"), name: r.PathValue("name")}
	if err := a.fill(); err != nil {
		writeError(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(a.name)}))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "private, no-store")
	http.ServeContent(w, r, "", time.Time{}, a)
}

// artifactRange is the number of bytes that one request reads.
const artifactRange = 512 << 10

// An artifactReader reads an artifact by requests to the engine. Each request checks the credential again.
type artifactReader struct {
	ctx        context.Context
	service    *service.Service
	call, name string

	size int64 // size of the artifact when the first part was read
	at   int64
	part []byte // bytes that were read from the engine and not yet returned; the first is at the position at
}

// fill reads the part that begins at the current position.
func (a *artifactReader) fill() error {
	res, err := service.Unary(a.ctx, a.service, tooldv1.CallService_ReadArtifact_FullMethodName, a.service.Calls.ReadArtifact,
		&tooldv1.ReadArtifactRequest{CallId: a.call, Name: a.name, Offset: a.at, Limit: artifactRange})
	if err != nil {
		return err
	}
	if a.part = res.GetData(); a.size == 0 {
		a.size = res.GetTotalSize()
	}
	return nil
}

// Read implements [io.Reader].
func (a *artifactReader) Read(b []byte) (int, error) {
	if a.at >= a.size {
		return 0, io.EOF
	}
	if len(a.part) == 0 {
		if err := a.fill(); err != nil {
			return 0, err
		}
		if len(a.part) == 0 {
			return 0, io.ErrUnexpectedEOF
		}
	}
	n := copy(b, a.part)
	a.part, a.at = a.part[n:], a.at+int64(n)
	return n, nil
}

// Seek implements [io.Seeker].
func (a *artifactReader) Seek(offset int64, whence int) (int64, error) {
	at := offset
	switch whence {
	case io.SeekCurrent:
		at += a.at
	case io.SeekEnd:
		at += a.size
	}
	if at < 0 {
		return 0, fmt.Errorf("seek to %d: %w", at, errors.ErrUnsupported)
	}
	if at != a.at {
		a.at, a.part = at, nil
	}
	return at, nil
}
