package httpserver

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/toold-dev/toold/server/access"
)

// A detached response uses its connection without net/http. This saves 20 KB for the request, buffers and goroutines of net/http.
type detached struct {
	server *Server
	conn   net.Conn
	header http.Header // of the response
}

// detach takes the connection of a request over from net/http, which is possible for HTTP/1.1 only. It then invokes serve in a new
// goroutine. The context of serve has the credential of the request, and ends with the connection or with the server.
func (s *Server) detach(w http.ResponseWriter, r *http.Request, serve func(context.Context, responder)) bool {
	s.leaving.Lock()
	defer s.leaving.Unlock()
	if r.ProtoMajor != 1 || s.ending {
		return false
	}
	credential := access.CredentialFrom(r.Context())
	d := &detached{server: s, header: w.Header().Clone()} // Copy the headers: a reference to w would keep the whole response of net/http in memory.
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	d.conn = conn
	ctx, cancel := context.WithCancel(access.WithCredential(s.streaming, &credential))
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	go func() { // The goroutine ends with the connection.
		_, _ = conn.Read(make([]byte, 1)) // Read returns when the client disconnects, because the client sends nothing more.
		cancel()
	}()
	s.streams.Go(func() {
		defer cancel()
		serve(context.WithValue(ctx, exchangeKey{}, conn), d)
	})
	return true
}

func (d *detached) begin(contentType string) error {
	d.header.Set("Content-Type", contentType)
	return d.head(http.StatusOK)
}

// head writes the status and the headers.
func (d *detached) head(status int) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nConnection: close\r\nDate: %s\r\n", status, http.StatusText(status), time.Now().UTC().Format(http.TimeFormat))
	if err := d.header.Write(&b); err != nil {
		return err
	}
	d.header = nil
	b.WriteString("\r\n")
	return d.write(b.Bytes())
}

func (d *detached) write(b []byte) error {
	if err := d.conn.SetWriteDeadline(time.Now().Add(d.server.cfg.Stall)); err != nil {
		return err
	}
	_, err := d.conn.Write(b)
	return err
}

func (d *detached) fail(err error) {
	e := recordError(err)
	for name, values := range e.header {
		d.header[name] = values
	}
	d.header.Set("Content-Length", fmt.Sprint(e.Len()))
	if d.head(e.status) == nil {
		_ = d.write(e.Bytes())
	}
}

// endStreams waits until ctx is done for the detached streams to end by themselves. Then it ends the remaining ones.
func (s *Server) endStreams(ctx context.Context) {
	s.leaving.Lock()
	s.ending = true // From now on no stream may begin, because streams.Wait may already have returned.
	s.leaving.Unlock()
	ended := make(chan struct{})
	go func() { // The goroutine returns at the latest after cut.
		s.streams.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	s.cut()
	<-ended
}
