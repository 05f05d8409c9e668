package notify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// maxAnswer is the maximum number of bytes that are read of an answer. maxHeader is the maximum size of its header in bytes.
	maxAnswer = 64 << 10
	maxHeader = 64 << 10
	// maxRetryAfter is the longest delay that a receiver can request for all letters.
	maxRetryAfter = 24 * time.Hour
)

// newClient returns the HTTP client for one target. It ignores the proxies in the environment, so that it connects to the configured
// address.
func newClient(t *Target, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*http.Client, error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		return nil, err
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != nil {
		secure.RootCAs = x509.NewCertPool()
		secure.RootCAs.AppendCertsFromPEM(t.CA)
	}
	if dial == nil {
		d := &net.Dialer{Timeout: t.Timeout}
		if u.Scheme == "http" {
			d.Control = thisMachine
		}
		dial = d.DialContext
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dial, TLSClientConfig: secure, TLSHandshakeTimeout: t.Timeout, ForceAttemptHTTP2: true, DisableCompression: true,
			MaxIdleConnsPerHost: t.AtOnce, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// thisMachine refuses a connection without TLS to another machine. It checks the address, because localhost could resolve to another
// machine.
func thisMachine(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err == nil && !at.Addr().Unmap().IsLoopback() {
		err = fmt.Errorf("%s is not this machine", at.Addr())
	}
	return err
}

// An answer is the result of sending a letter once.
type answer struct {
	err        error         // nil when the receiver accepted the letter
	retryAfter time.Duration // delay that the receiver requests
	kept       bool          // nothing was sent, because another daemon may own the letter
}

// send sends a letter once.
func (q *queue) send(ctx context.Context, outbox Outbox, l *Letter) answer {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, q.target.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, q.target.URL, strings.NewReader(l.Body))
	if err != nil {
		return answer{err: err}
	}
	keys, err := q.keys(ctx)
	if err != nil {
		return answer{err: err}
	}
	now := time.Now()
	req.Header.Set("Content-Type", "application/cloudevents+json")
	req.Header.Set("User-Agent", "toold")
	req.Header.Set("Webhook-Id", l.ID)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("Webhook-Signature", signature(keys, l.ID, now, l.Body))
	req.Header.Set("Toold-Epoch", strconv.FormatInt(outbox.Epoch(), 10))
	if err := outbox.Own(whole); err != nil {
		return answer{err: err, kept: true}
	}
	resp, err := q.client.Do(req)
	if err != nil {
		return answer{err: withoutURL(err)}
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // Reads the rest of the body, so that the connection can be used again. The result depends only on the status.
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return answer{}
	case code == http.StatusGone:
		return answer{err: errGone}
	default:
		return answer{err: fmt.Errorf("the receiver answered %d %s", code, http.StatusText(code)), retryAfter: retryAfter(resp.Header.Get("Retry-After"), now)}
	}
}

// withoutURL removes the URL from an error, because it may contain secrets.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// retryAfter parses seconds or a date. It returns 0 for other texts and for dates in the past.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return min(max(time.Duration(min(seconds, int(maxRetryAfter/time.Second)))*time.Second, 0), maxRetryAfter)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
