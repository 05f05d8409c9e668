package subagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/toold-dev/toold/tool"
)

// Protocol is the protocol of an endpoint.
type Protocol string

// The supported protocols.
const (
	OpenAI    Protocol = "openai"    // Chat Completions API
	Anthropic Protocol = "anthropic" // Messages API
)

// words encodes requests and decodes answers of a protocol.
type words interface {
	path() string
	sign(h http.Header, key string)
	request(q *question) ([]byte, error)
	answer(body []byte) (*answer, error)
}

func (p Protocol) words() (words, bool) {
	switch p {
	case OpenAI:
		return openAI{}, true
	case Anthropic:
		return anthropic{}, true
	}
	return nil, false
}

type question struct {
	model, system string
	messages      []message
	tools         json.RawMessage
	answerTokens  int
	key           string // A gateway may use this idempotency key to recognise a repeated request.
	namespace     string
}

type answer struct {
	text    string
	calls   []wanted
	cut     bool // The endpoint cut the answer at its limit of tokens.
	in, out int64
}

// wanted is a tool call as the model wrote it.
type wanted struct{ id, name, arguments string }

const (
	maxAnswer  = 8 << 20 // maximum size of an answer, in bytes
	maxTries   = 5       // maximum number of tries for one question
	maxDelay   = 30 * time.Second
	maxPatient = 2 * time.Minute // A longer Retry-After counts as a failure without another try.
)

// model sends questions to an endpoint.
type model struct {
	words    words
	endpoint string
	key      func(ctx context.Context, namespace string) (string, error)
	client   *http.Client
	timeout  time.Duration // limit of one request
	first    time.Duration // delay before the second try
}

// newClient returns a client for the operator's endpoint. It uses no proxy from the environment, follows no redirect and stores no cookie.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: 90 * time.Second,
			TLSHandshakeTimeout: 15 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// A failure says why a question has no answer.
type failure struct {
	reason string // reason of the error, in UPPER_SNAKE_CASE
	text   string // message for the model that called the subagent
	detail string // details for the operator
	again  bool   // The same question may be sent again.
	after  time.Duration
}

func (f *failure) Error() string { return f.text }

func malformed(format string, args ...any) *failure {
	return &failure{reason: "MALFORMED", text: "The subagent's model returned an invalid answer", detail: fmt.Sprintf(format, args...), again: true}
}

// result returns the result of a subagent's call when its model does not answer.
func (f *failure) result() *tool.Result {
	return &tool.Result{Status: tool.StatusError, Error: &tool.Error{
		Code: tool.Upstream, Reason: f.reason, Message: f.text, DeveloperMessage: f.detail, Retryable: f.again, RetryAfter: f.after,
	}}
}

// ask returns the model's answer. After a temporary failure it repeats the question, at most maxTries times in all. It does not repeat the
// question when the pause would be longer than maxPatient or than the rest of ctx.
func (m *model) ask(ctx context.Context, q *question, report func(string)) (*answer, error) {
	body, err := m.words.request(q)
	if err != nil {
		return nil, err
	}
	delay := m.first
	for try := 1; ; try++ {
		a, err := m.once(ctx, body, q)
		var f *failure
		if err == nil || ctx.Err() != nil || !errors.As(err, &f) || !f.again || try == maxTries {
			return a, err
		}
		wait := max(delay, f.after)
		if deadline, ok := ctx.Deadline(); f.after > maxPatient || ok && time.Until(deadline) <= wait {
			return nil, err
		}
		report(fmt.Sprintf("the model does not answer (%s); trying again", f.reason))
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
		delay = min(2*delay, maxDelay)
	}
}

func (m *model) once(ctx context.Context, body []byte, q *question) (*answer, error) {
	key, err := m.key(ctx, q.namespace)
	if err != nil {
		return nil, &failure{reason: "KEY", text: "The key of the subagent's model cannot be read", detail: err.Error()}
	}
	ctx, stop := context.WithTimeout(ctx, m.timeout)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.endpoint+m.words.path(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Idempotency-Key", q.key)
	m.words.sign(r.Header, key)
	response, err := m.client.Do(r)
	if err != nil {
		return nil, &failure{reason: "UNREACHABLE", text: "The subagent's model cannot be reached", detail: err.Error(), again: true}
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case response.StatusCode != http.StatusOK:
		return nil, refused(response, text, key)
	case len(text) > maxAnswer:
		return nil, &failure{reason: "ANSWER_TOO_LARGE", text: "The subagent's model returned an answer that is too large", detail: fmt.Sprintf("it has more than %d bytes", maxAnswer)}
	case err != nil:
		return nil, &failure{reason: "UNREACHABLE", text: "The connection to the subagent's model ended during its answer", detail: err.Error(), again: true}
	}
	return m.words.answer(text)
}

// refused returns the failure for an HTTP error status. The text from the endpoint goes only to the operator, with the key removed.
func refused(r *http.Response, body []byte, key string) *failure {
	text := strings.ToValidUTF8(string(body), "�")
	if key != "" {
		text = strings.ReplaceAll(text, key, "(key)")
	}
	text = clip(text, 1000)
	f := &failure{
		reason: "HTTP_" + strconv.Itoa(r.StatusCode), detail: r.Status + ": " + text,
		text: fmt.Sprintf("The endpoint of the subagent's model answered %d", r.StatusCode),
	}
	switch c := r.StatusCode; {
	case c == http.StatusRequestTimeout, c == http.StatusTooEarly, c == http.StatusTooManyRequests, c >= 500 && c != http.StatusNotImplemented:
		f.again, f.after = true, retryAfter(r.Header.Get("Retry-After"), time.Now())
	}
	return f
}

// retryAfter parses a Retry-After header: a number of seconds or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return max(0, time.Duration(n)*time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// clip shortens a text to about n bytes, at a character boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// sum adds token counts from an endpoint. It returns -1 when a count is not plausible.
func sum(parts ...int64) (total int64) {
	for _, n := range parts {
		if n < 0 || n > maxTokens {
			return -1
		}
		total += n
	}
	return total
}

// maxTokens is a plausibility limit: no real answer has so many tokens.
const maxTokens = 1 << 40
