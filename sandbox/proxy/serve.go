package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// linger is the time in which the proxy reads the rest of a request that it has already answered. If it closed a connection with unread
// data, the process could lose the answer.
const linger = 500 * time.Millisecond

// serve handles the only request of a connection.
func (s *session) serve(ctx context.Context, conn net.Conn, e *Event) {
	_ = conn.SetDeadline(time.Now().Add(s.cfg.Head))
	in := bufio.NewReaderSize(conn, maxLine)
	r, err := readRequest(in)
	if errors.Is(err, io.EOF) && in.Buffered() == 0 && r == nil {
		return // The client connected and sent nothing, for example to test the port.
	}
	if r != nil {
		e.Method, e.Host, e.Port = r.method, r.to.host, r.to.port
	}
	var added http.Header
	var out net.Conn
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(s.cfg.Dial + s.cfg.Head))
		out, err = s.open(ctx, r.to)
	}
	if err == nil && r.method != http.MethodConnect && s.cfg.Headers != nil {
		if added, err = s.cfg.Headers.Headers(ctx, Plain{s.tag, s.policy, r.to.host, r.to.port}); err != nil {
			out.Close()
			err = refusal("%v", err)
		}
	}
	if err != nil {
		s.answer(conn, in, e, err)
		return
	}
	defer out.Close()
	defer context.AfterFunc(ctx, func() { out.Close() })()
	e.Address = out.RemoteAddr().String()
	t := &tunnel{conn: conn, in: in, out: out, idle: s.cfg.Idle, began: time.Now()}
	t.touch()
	if r.method == http.MethodConnect {
		t.connect()
	} else if err := t.plain(r, added); err != nil && ctx.Err() == nil {
		e.Verdict, e.Why = Failed, err.Error()
	}
	e.Up, e.Down = t.up.Load(), t.down.Load()
	if ctx.Err() == nil {
		s.linger(conn, in)
	}
}

// answer tells the process why its request was not forwarded.
func (s *session) answer(conn net.Conn, in *bufio.Reader, e *Event, err error) {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		if timeout, is := errors.AsType[net.Error](err); is && timeout.Timeout() {
			p = &problem{http.StatusRequestTimeout, "the request was not received in time"}
		} else {
			p = &problem{http.StatusBadRequest, "the request is incomplete"}
		}
	}
	e.Why, e.Verdict = p.why, Refused
	if p.status == http.StatusBadGateway || p.status == http.StatusGatewayTimeout {
		e.Verdict = Failed
	}
	_ = conn.SetDeadline(time.Now().Add(s.cfg.Head))
	text := "toold: " + p.why + "\n"
	fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		p.status, http.StatusText(p.status), len(text), text)
	s.linger(conn, in)
}

func (s *session) linger(conn net.Conn, in *bufio.Reader) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_ = conn.SetReadDeadline(time.Now().Add(linger))
		_, _ = io.CopyN(io.Discard, in, 1<<20)
	}
}

// hop reports whether a header field is not forwarded, because it is meant for the proxy or the proxy sets it itself.
func hop(name string) bool {
	return strings.HasPrefix(name, "proxy-") || slices.Contains([]string{
		"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host", "content-length", "expect",
	}, name)
}

// head returns the head of the request as it is sent to the host.
func (r *request) head(added http.Header) string {
	var b strings.Builder
	host := strings.TrimSuffix(r.to.String(), ":80")
	version := "HTTP/1.1"
	if r.old { // An HTTP/1.1 host could answer in chunks, which an HTTP/1.0 client cannot read.
		version = "HTTP/1.0"
	}
	fmt.Fprintf(&b, "%s %s %s\r\nHost: %s\r\nConnection: close\r\n", r.method, r.path, version, host)
	var named []string // fields named in Connection, which are meant for the proxy too
	for _, value := range r.all("connection") {
		for one := range strings.SplitSeq(value, ",") {
			named = append(named, strings.ToLower(strings.TrimSpace(one)))
		}
	}
	for _, f := range r.fields {
		if !hop(f.name) && !slices.Contains(named, f.name) && len(added.Values(f.name)) == 0 {
			fmt.Fprintf(&b, "%s: %s\r\n", f.name, f.value)
		}
	}
	for name, values := range added {
		for _, value := range values {
			fmt.Fprintf(&b, "%s: %s\r\n", name, strings.Map(oneLine, value))
		}
	}
	switch {
	case r.length < 0:
		b.WriteString("Transfer-Encoding: chunked\r\n")
	case r.length > 0 || len(r.all("content-length")) > 0:
		b.WriteString("Content-Length: " + strconv.FormatInt(r.length, 10) + "\r\n")
	}
	b.WriteString("\r\n")
	return b.String()
}

func oneLine(r rune) rune {
	if r == '\r' || r == '\n' || r == 0 {
		return -1
	}
	return r
}

// plain forwards a request and its answer.
func (t *tunnel) plain(r *request, added http.Header) error {
	if _, err := io.WriteString(t.toHost(), r.head(added)); err != nil {
		return errors.New("cannot send to the host")
	}
	if r.waits {
		if _, err := io.WriteString(t.conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return errors.New("cannot send to the process")
		}
	}
	var sent sync.WaitGroup
	sent.Go(func() {
		if err := t.body(r); err != nil {
			t.out.Close()
		}
	})
	back := bufio.NewReaderSize(t.fromHost(), maxLine)
	err := t.answerHead(back)
	if err == nil {
		if _, err = io.Copy(writer{t.toProcess()}, back); err != nil {
			err = errors.New("the response is incomplete")
		}
	} else {
		fmt.Fprintf(t.conn, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\ntoold: %v\n", err)
	}
	t.out.Close()
	_ = t.conn.SetReadDeadline(time.Now()) // stops reading a body that is no longer needed
	sent.Wait()
	return err
}

// body sends exactly the body of a request.
func (t *tunnel) body(r *request) error {
	if r.length == 0 {
		return nil
	}
	in := t.fromProcess()
	if r.length > 0 {
		n, err := io.Copy(writer{t.toHost()}, io.LimitReader(in, r.length))
		if err == nil && n < r.length {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	chunks := httputil.NewChunkedWriter(t.toHost())
	if _, err := io.Copy(writer{chunks}, httputil.NewChunkedReader(in)); err != nil {
		return err
	}
	if err := chunks.Close(); err != nil {
		return err
	}
	_, err := io.WriteString(t.toHost(), "\r\n") // trailers are dropped
	return err
}

var errAnswer = errors.New("the host's response is not valid HTTP")

// answerHead forwards the head of an answer without its hop-by-hop fields.
func (t *tunnel) answerHead(back *bufio.Reader) error {
	for range 10 { // bounds the interim answers
		lines, err := readAnswer(back)
		if err != nil {
			return err
		}
		status := lines[0]
		if len(status) < 12 || !strings.HasPrefix(status, "HTTP/1.") || strings.HasPrefix(status[9:], "101") {
			return errAnswer
		}
		interim := status[9] == '1'
		var b strings.Builder
		b.WriteString("HTTP/1.1" + status[8:] + "\r\n")
		for _, line := range lines[1:] {
			name, _, _ := strings.Cut(line, ":")
			if name = strings.ToLower(strings.TrimSpace(name)); name == "content-length" || name == "transfer-encoding" || name == "trailer" || !hop(name) {
				b.WriteString(line + "\r\n")
			}
		}
		if !interim {
			b.WriteString("Connection: close\r\n")
		}
		if _, err := io.WriteString(t.toProcess(), b.String()+"\r\n"); err != nil || !interim {
			return err
		}
	}
	return errAnswer
}

// readAnswer returns the lines of an answer's head.
func readAnswer(back *bufio.Reader) (lines []string, err error) {
	size := 0
	for {
		line, err := back.ReadSlice('\n')
		if err != nil || size > maxHead {
			return nil, errAnswer
		}
		size += len(line)
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" && len(lines) > 0 {
			return lines, nil
		}
		lines = append(lines, text)
	}
}
