package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// idle is the time after which an unused connection is closed. It is shorter than the 5 s of Node's HTTP server, which most servers use. If
// the server closed the connection first, a request sent at that moment would be lost with an unknown outcome.
const idle = 4 * time.Second

// dialHTTP starts a connection to an address.
func (s *server) dialHTTP(ctx context.Context) line {
	base := &http.Transport{ // Proxy is not set, so the proxy settings of the environment are ignored.
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: idle, MaxIdleConnsPerHost: 16, ForceAttemptHTTP2: true,
		MaxResponseHeaderBytes: 64 << 10,
	}
	ctx, cut := context.WithCancel(context.WithoutCancel(ctx)) // The connection continues after ctx ends, so that it can be closed properly.
	g := &guarded{ctx: ctx, base: base, events: s.entry.Events, guard: newGuard(), headers: s.entry.Headers, own: s.cfg.Own, expand: s.expand, lost: make(chan struct{}), signin: s.signin}
	if u, err := url.Parse(s.entry.URL); err == nil { // There is no error, because the URL was checked before.
		g.host, g.scheme = u.Host, u.Scheme
	}
	client := &http.Client{Transport: g, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var t sdk.Transport = &sdk.StreamableClientTransport{Endpoint: s.entry.URL, HTTPClient: client, MaxEventSize: MaxMessage}
	if s.entry.Events {
		t = &sdk.SSEClientTransport{Endpoint: s.entry.URL, HTTPClient: client}
	}
	return line{transport: t, reports: g.guard.reports, cut: cut, lost: g.lost, end: func() error {
		cut()
		base.CloseIdleConnections()
		return g.broken()
	}}
}

// A transportError is an error of the connection, not an answer of the server.
type transportError struct {
	err  error
	sent bool // the server may have received the request
	busy bool // the server answered that it did not accept the request
}

func (e *transportError) Error() string { return e.err.Error() }

func (e *transportError) Unwrap() error { return e.err }

// guarded is the RoundTripper of an HTTP connection. It checks all requests and responses.
type guarded struct {
	ctx          context.Context //nolint:containedctx // of the connection: bodies are read by other goroutines
	base         http.RoundTripper
	guard        *guard
	host, scheme string
	events       bool
	headers      map[string]string
	own          func(context.Context) error // nil when no other daemon can take over the store
	expand       func(ctx context.Context, parameter, text string) (string, error)
	lost         chan struct{} // closed when why is set
	signin       *signin       // nil when sign-in is not possible

	mu  sync.Mutex
	why error
}

func (g *guarded) broken() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}

// fail ends the connection with a reason.
func (g *guarded) fail(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.why == nil && g.ctx.Err() == nil {
		g.why = err
		close(g.lost)
	}
	return &transportError{err: err, sent: true}
}

// RoundTrip implements [http.RoundTripper].
func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != g.host || r.URL.Scheme != g.scheme {
		return nil, g.fail(fmt.Errorf("the server refers to another address: %s://%s", r.URL.Scheme, r.URL.Host))
	}
	if why := g.broken(); why != nil && r.Method != http.MethodDelete { // The connection has ended. Without this check, the SDK would try again in an earlier era.
		return nil, &transportError{err: why}
	}
	ctx := r.Context()
	if g.events && r.Method == http.MethodGet { // This request opens the stream of all messages. The stream continues after the time limit for opening it.
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	unbind := context.AfterFunc(g.ctx, cancel) // The request ends with the connection, even when the server does not answer.
	release := func() { unbind(); cancel() }
	r = r.Clone(ctx)
	if err := g.addHeaders(r); err != nil {
		release()
		return nil, g.fail(err)
	}
	if err := g.claim(r); err != nil {
		release()
		return nil, err
	}
	if ctx.Err() != nil {
		release()
		return nil, ctx.Err()
	}
	if r.GetBody != nil {
		if body, err := r.GetBody(); err == nil {
			text, err := io.ReadAll(body)
			if err == nil {
				g.guard.sending(ctx, text).noteSent()
			}
			_ = body.Close() // The body is in memory, so Close cannot fail.
		}
	}
	resp, err := g.sendSignedIn(r)
	if err != nil {
		release()
		return nil, err
	}
	resp.Body = &boundBody{resp.Body, release}
	return g.judge(resp)
}

// sendSignedIn sends a request with the current token. When the server rejects the token, sendSignedIn renews it and sends the request once
// more.
func (g *guarded) sendSignedIn(r *http.Request) (*http.Response, error) {
	if g.signin == nil {
		return g.reach(r)
	}
	for again := true; ; again = false {
		visit := g.signin.current().Visit
		token, noAnswer := g.signin.token(r.Context())
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := g.reach(r)
		if err != nil || resp.StatusCode != http.StatusUnauthorized && !wantsMore(resp) {
			return resp, err
		}
		_ = resp.Body.Close()
		renewed, ended := false, resp.StatusCode == http.StatusUnauthorized
		if again && ended && noAnswer == nil {
			renewed, noAnswer = g.signin.renew(r.Context(), token)
		}
		switch {
		case renewed:
		case r.Context().Err() != nil: // Only this request was cancelled; the renewal continues. So no sign-in is needed.
			return nil, context.Cause(r.Context())
		case ended && noAnswer != nil: // The authorization server did not answer. The renewal may succeed later, so no sign-in is needed here either.
			_ = g.fail(noAnswer)
			return nil, &transportError{err: noAnswer}
		}
		if renewed || !g.signin.refused(token, visit, resp) && again {
			if r.Body, err = body(r); err != nil {
				return nil, err
			}
			continue
		}
		return nil, g.fail(errSignIn) // The connection ends. After a sign-in, the hub opens a new one.
	}
}

func body(r *http.Request) (io.ReadCloser, error) {
	if r.GetBody == nil {
		return http.NoBody, nil
	}
	return r.GetBody()
}

// wantsMore reports whether the server refused the token because it lacks scopes.
func wantsMore(resp *http.Response) bool {
	return resp.StatusCode == http.StatusForbidden && strings.Contains(resp.Header.Get("WWW-Authenticate"), "insufficient_scope")
}

// claim adds headers by which a server can recognise a call of a daemon that has lost its store. It returns an error when another daemon
// may own the store now.
func (g *guarded) claim(r *http.Request) error {
	of, ok := r.Context().Value(requestKey{}).(*request)
	if !ok {
		return nil
	}
	r.Header.Set("Toold-Epoch", strconv.FormatInt(of.call.Epoch, 10))
	r.Header.Set("Toold-Attempt", strconv.Itoa(of.call.Attempt))
	r.Header.Set("Idempotency-Key", of.call.IdempotencyKey())
	if g.own == nil {
		return nil
	}
	if err := g.own(r.Context()); err != nil {
		return notRun(err)
	}
	return nil
}

// reach sends a request. When the server cannot be reached, reach also ends the connection. Otherwise the daemon might not notice the
// failure for hours.
func (g *guarded) reach(r *http.Request) (*http.Response, error) {
	var sent atomic.Bool
	if err := g.claim(r); err != nil { // The store is checked again, because the request may have waited for a token.
		return nil, err
	}
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	resp, err := g.base.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	switch {
	case err == nil || r.Context().Err() != nil:
		return resp, err
	case sent.Load():
		return nil, &transportError{err: err, sent: true}
	}
	_ = g.fail(err) // The result of fail is not used, because it would say that the request was sent.
	return nil, &transportError{err: err}
}

// judge returns an error for some HTTP status codes. For the others it wraps the body, so that the messages in it are checked.
func (g *guarded) judge(resp *http.Response) (*http.Response, error) {
	switch code := resp.StatusCode; {
	case code >= 300 && code < 400:
		_ = resp.Body.Close()
		return nil, g.fail(fmt.Errorf("the server answered with a redirect (%s)", resp.Status))
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable || code == http.StatusBadGateway || code == http.StatusGatewayTimeout:
		_ = resp.Body.Close()
		busy := code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable
		return nil, &transportError{err: fmt.Errorf("the server answered with %s", resp.Status), sent: true, busy: busy}
	}
	var err error
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case kind == "text/event-stream":
		resp.Body = &eventBody{g: g, body: resp.Body, lines: bufio.NewReaderSize(resp.Body, 32<<10)}
	case kind == "application/json" && resp.StatusCode < 300:
		err = g.single(resp)
	case resp.StatusCode >= 400: // The SDK parses the body of an error response as a protocol error, so it must be checked too.
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // An error is ignored, because a part of the text is enough.
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(g.signin.hide(text)))
	default:
		resp.Body = limitedBody{io.LimitReader(resp.Body, MaxMessage), resp.Body}
	}
	return resp, err
}

// addHeaders adds the headers of the entry with the current values of their references.
func (g *guarded) addHeaders(r *http.Request) error {
	for name, text := range g.headers {
		value, err := g.expand(r.Context(), "headers."+name, text)
		if err == nil && strings.ContainsAny(value, "\r\n\x00") {
			err = errors.New("its secret has more than one line")
		}
		if err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
		r.Header.Set(name, value)
	}
	return nil
}

// A boundBody is a response body. Close also releases the resources of the request.
type boundBody struct {
	io.ReadCloser
	release func()
}

func (b *boundBody) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}

type limitedBody struct {
	io.Reader
	io.Closer
}

// single checks the body of a response that contains one message, and replaces it by the checked message.
func (g *guarded) single(resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, MaxMessage+1))
	err = errors.Join(err, resp.Body.Close())
	if err == nil && len(bytes.TrimSpace(text)) > 0 && text[0] != '[' {
		text, err = g.guard.received(g.ctx, g.signin.hide(text))
	}
	if err != nil {
		return g.fail(err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	resp.ContentLength = int64(len(text))
	resp.Header.Del("Content-Length")
	return nil
}

// An eventBody is the body of a stream of events. It checks the messages in them. Only one goroutine may read it.
type eventBody struct {
	g     *guarded
	body  io.Closer
	lines *bufio.Reader
	data  []byte // data of the current event, as far as it was read
	ready []byte
	err   error
	size  int  // size of the current event in bytes
	named bool // the name of the event is not "message", so it is ignored
}

func (b *eventBody) Close() error { return b.body.Close() }

func (b *eventBody) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		b.err = b.next()
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// next reads a line. It collects data lines until the event is complete.
func (b *eventBody) next() error {
	text, err := b.line()
	if err != nil {
		return err
	}
	trimmed := bytes.TrimRight(text, "\r\n")
	if data, ok := bytes.CutPrefix(trimmed, []byte("data:")); ok && !b.named {
		if b.data != nil {
			b.data = append(b.data, ' ') // Two data lines of an event are parts of one JSON text; a space may replace the line end between them.
		}
		b.data = append(b.data, bytes.TrimPrefix(data, []byte(" "))...)
		if b.data == nil {
			b.data = []byte{}
		}
		return nil
	}
	if name, ok := bytes.CutPrefix(trimmed, []byte("event:")); ok {
		b.named = string(bytes.TrimSpace(name)) != "message"
	}
	if len(trimmed) > 0 {
		b.ready = append(b.ready, text...)
		return nil
	}
	if len(bytes.TrimSpace(b.data)) > 0 {
		message, err := b.g.guard.received(b.g.ctx, b.g.signin.hide(b.data))
		if err != nil {
			return b.g.fail(err)
		}
		b.ready = append(append(append(b.ready, "data: "...), message...), '\n')
	} else if b.data != nil {
		b.ready = append(b.ready, "data:\n"...)
	}
	b.ready = append(b.ready, '\n')
	b.data, b.size, b.named = nil, 0, false
	return nil
}

// line reads a line. It fails when the event is longer than MaxMessage.
func (b *eventBody) line() ([]byte, error) {
	var text []byte
	for {
		part, err := b.lines.ReadSlice('\n')
		text = append(text, part...)
		if b.size += len(part); b.size > MaxMessage {
			return nil, b.g.fail(fmt.Errorf("the server sent an event of more than %d bytes", MaxMessage))
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}
