package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/toold-dev/toold/sandbox/address"
)

const (
	early        = 30 * time.Second // a token is renewed this long before it expires; a token valid for less than twice this time is renewed at half its lifetime
	renewalTime  = 10 * time.Second // time limit of a renewal
	renewalPause = 5 * time.Second  // pause after a failed renewal, as long as the token is still valid
)

// A Vault stores the credentials from sign-ins. Only the daemon may read it.
type Vault interface {
	Load(key string) (text []byte, ok bool)
	Save(key string, text []byte) error
}

// A Client is the daemon's registration at an authorization server, made by the operator.
type Client struct {
	ID, Secret string
	Scopes     []string // nil means the scopes that the server asks for
}

// A signin manages the daemon's credentials for a server over HTTP. When a reload replaces the server, the new server with the same address
// uses the same signin, because a refresh token may be valid only once.
type signin struct {
	key, url string
	cfg      *Config
	http     *http.Client

	turn    chan struct{} // semaphore: only one goroutine at a time may begin a visit
	writing sync.Mutex    // held while the record is changed

	mu        sync.Mutex
	record    *record // replaced by each change, never changed in place
	client    *Client // nil when the daemon registers itself
	moved     bool    // the key has another address now, so nothing more may be stored
	renewing  *renewal
	failed    time.Time // time of the last failed renewal
	noAnswer  time.Time // time of the first unanswered renewal since the authorization server last answered; zero when the last renewal got an answer
	hidden    []string  // values to redact, newest last
	challenge []string  // WWW-Authenticate headers of the last refusal; may be nil
	more      bool      // the last refusal was only because of missing scopes
	missed    bool      // the server has refused the daemon; since then it has accepted no request, and no person has signed in
}

// A record is the data that the vault stores for a server.
type record struct {
	Server string        `json:"server"` // URL of the server
	Way    way           `json:"way"`
	Token  *oauth2.Token `json:"token,omitempty"` // nil before a sign-in
	Visit  string        `json:"visit,omitempty"` // state of the visit that produced the token
	Member *member       `json:"member,omitempty"`

	Earlier []*member `json:"earlier,omitempty"` // older registrations, newest first; kept because visits that are not finished may use them
}

// A way describes how the daemon gets tokens.
type way struct {
	Issuer   string   `json:"issuer"`
	URL      string   `json:"url"` // URL of the token endpoint
	Client   string   `json:"client"`
	Given    bool     `json:"given,omitempty"`  // the operator configured the client
	Secret   string   `json:"secret,omitempty"` // secret of a client that the daemon registered; stored only in the vault
	Style    int      `json:"style"`
	Resource string   `json:"resource"`
	Scopes   []string `json:"scopes,omitempty"`
}

// A renewal is a token renewal in progress.
type renewal struct {
	done     chan struct{}
	ok       bool  // there is a new token; ok and noAnswer are valid after done is closed
	noAnswer error // why the authorization server gave no answer, if this is temporary; nil when it answered, or has not answered for longer than Config.Silence
}

// newSignin returns nil for a server without sign-in, and for a server whose headers already contain credentials.
func newSignin(e *Entry, cfg *Config) *signin {
	if e.URL == "" || cfg.Vault == nil {
		return nil
	}
	for name := range e.Headers {
		if strings.EqualFold(name, "Authorization") {
			return nil
		}
	}
	var rules address.Rules // The server chooses these addresses, so they must not be those of internal machines.
	if u, err := url.Parse(e.URL); err == nil && loopback(u.Hostname()) {
		rules.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, ControlContext: rules.Control}
	s := &signin{key: e.Key, url: e.URL, client: e.Client, cfg: cfg, turn: make(chan struct{}, 1), record: &record{Server: e.URL}, http: &http.Client{
		Timeout:       30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true,
		},
	}}
	var r record
	if text, ok := cfg.Vault.Load(e.Key); ok && json.Unmarshal(text, &r) == nil && r.Server == e.URL {
		if r.Way.Given != (e.Client != nil) || e.Client != nil && e.Client.ID != r.Way.Client {
			r.Token = nil // The token belongs to another client, so it is dropped.
		}
		s.record = &r
	}
	s.learn(s.record)
	return s
}

// same reports whether s may use the credentials of other.
func (s *signin) same(other *signin) bool {
	return s != nil && other != nil && s.url == other.url && s.operators().id() == other.operators().id()
}

func (c *Client) id() string {
	if c == nil {
		return ""
	}
	return c.ID
}

// operators returns the client that the operator configured, or nil.
func (s *signin) operators() *Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// adopt sets the client of a new configuration.
func (s *signin) adopt(c *Client) {
	s.mu.Lock()
	s.client = c
	s.mu.Unlock()
	s.learn(s.current())
}

// abandon stops storing credentials, because the key now has another address.
func (s *signin) abandon() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved = true
}

// wanted reports whether the server has refused the daemon and needs a sign-in.
func (s *signin) wanted() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missed
}

// admitted records that the server has accepted the daemon's credentials.
func (s *signin) admitted() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed = false
}

func (s *signin) current() *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record
}

// token returns the access token for a request, or "" when there is none. noAnswer is set when the token has expired and the authorization
// server did not answer the renewal.
func (s *signin) token(ctx context.Context) (token string, noAnswer error) {
	t := s.current().Token
	if t == nil {
		return "", nil
	}
	soon := early
	if t.ExpiresIn > 0 && t.ExpiresIn < int64(2*early/time.Second) {
		soon = time.Duration(t.ExpiresIn) * time.Second / 2
	}
	left := time.Until(t.Expiry)
	if t.Expiry.IsZero() || left >= soon {
		return t.AccessToken, nil
	}
	if left > 0 { // The token is still valid, so the request does not wait for the renewal.
		s.renewal(t.AccessToken, true)
		return t.AccessToken, nil
	}
	renewed, noAnswer := s.renew(ctx, t.AccessToken)
	if now := s.current().Token; renewed && now != nil {
		t = now
	}
	return t.AccessToken, noAnswer
}

// renew replaces the access token in the parameter used. This token has expired, or the server no longer accepts it. renew reports whether
// there is a new token. Concurrent callers wait for the same renewal. The renewal continues when its callers are cancelled, because its
// response may contain the only valid refresh token.
func (s *signin) renew(ctx context.Context, used string) (renewed bool, noAnswer error) {
	select {
	case <-ctx.Done():
		return false, nil
	default:
	}
	under, other := s.renewal(used, false)
	if under == nil {
		return other, nil
	}
	select {
	case <-under.done:
		return under.ok, under.noAnswer
	case <-ctx.Done():
		return false, nil
	}
}

// renewal starts a renewal, or returns the renewal in progress. It returns nil in three cases: there is no refresh token; the current token
// differs from the token in used (then other is true); or an early renewal failed less than renewalPause ago.
func (s *signin) renewal(used string, early bool) (under *renewal, other bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.record
	switch {
	case r.Token == nil:
		return nil, false
	case r.Token.AccessToken != used:
		return nil, true // Another goroutine has already renewed the token.
	case r.Token.RefreshToken == "" || early && time.Since(s.failed) < renewalPause:
		return nil, false
	}
	if s.renewing == nil {
		s.renewing = &renewal{done: make(chan struct{})}
		go s.replace(r, s.renewing) // The goroutine ends within renewalTime. settle waits for it.
	}
	return s.renewing, false
}

// settle waits until no renewal is in progress.
func (s *signin) settle() {
	if s == nil {
		return
	}
	s.mu.Lock()
	under := s.renewing
	s.mu.Unlock()
	if under != nil {
		<-under.done
	}
}

// replace performs a renewal. After a refusal, it drops the refresh token, so that it is not used again.
func (s *signin) replace(r *record, under *renewal) {
	defer close(under.done)
	ctx, stop := context.WithTimeout(context.WithValue(context.Background(), oauth2.HTTPClient, s.http), renewalTime)
	defer stop()
	c := clientcredentials.Config{ // This type is used because it sends the configured scopes.
		ClientID: r.Way.Client, ClientSecret: s.secret(&r.Way), TokenURL: r.Way.URL, AuthStyle: oauth2.AuthStyle(r.Way.Style),
		EndpointParams: url.Values{"grant_type": {"refresh_token"}, "refresh_token": {r.Token.RefreshToken}, "resource": {r.Way.Resource}},
	}
	next, err := c.Token(ctx)
	noAnswer := unanswered(err)
	if err == nil {
		if err = bearer(next); err != nil { // The access token is not used. But the new refresh token is kept, because it may be the only valid one.
			worn := *r.Token
			worn.RefreshToken, next = next.RefreshToken, &worn
		}
	}
	if refusal, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refusal.ErrorCode == "invalid_grant" {
		worn := *r.Token
		worn.RefreshToken = ""
		next = &worn
	}
	if next != nil {
		s.change(func(now *record) {
			if now.Token == r.Token { // When the tokens differ, another sign-in has replaced the record meanwhile.
				now.Token, under.ok = next, err == nil
			}
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case noAnswer == nil:
		s.noAnswer = time.Time{}
	case s.noAnswer.IsZero() || now.Sub(s.failed) > max(s.cfg.Silence, 2*maxBackoff): // The silence of the authorization server begins now. It also begins again after a long time without a renewal, because the daemon did not ask the server in that time.
		s.noAnswer = now
	}
	if now.Sub(s.noAnswer) < s.cfg.Silence {
		under.noAnswer = noAnswer
	}
	if s.renewing = nil; err != nil {
		s.failed = now
	}
}

// unanswered returns an error when the authorization server gave no decision on a renewal, for example because of a temporary failure. It
// returns nil when the server granted or refused the renewal.
func unanswered(err error) error {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case err == nil:
		return nil
	case !ok: // The authorization server was not reached, or its response was unreadable.
		return errors.New("the sign-in was not renewed: " + cleanLine(err.Error(), maxDescription))
	case refused.Response.StatusCode >= 500 || refused.Response.StatusCode == http.StatusTooManyRequests:
		return errors.New("the sign-in was not renewed: the authorization server answered " + cleanLine(refused.Response.Status, maxTitle))
	}
	return nil
}

// bearer returns an error for a token that is not a bearer token, or that is too short to be redacted. It also sets the token's lifetime.
func bearer(t *oauth2.Token) error {
	if len(t.AccessToken) < leastHidden {
		return fmt.Errorf("the authorization server issued a token of fewer than %d bytes", leastHidden)
	}
	if !strings.EqualFold(t.Type(), "Bearer") {
		return errors.New("the authorization server issued a token that is not a bearer token")
	}
	if !t.Expiry.IsZero() {
		t.ExpiresIn = max(1, int64(time.Until(t.Expiry)/time.Second))
	}
	return nil
}

func (s *signin) secret(w *way) string {
	if c := s.operators(); c != nil {
		return c.Secret
	}
	return w.Secret
}

// change replaces the record and stores it. When storing fails, the new record is still used, because the old tokens may no longer be
// valid.
func (s *signin) change(f func(*record)) {
	s.writing.Lock()
	defer s.writing.Unlock()
	now := s.current() // The record cannot change meanwhile, because that needs the lock writing.
	next := *now
	f(&next)
	s.learn(&next) // Redaction must begin before the values are sent.
	s.mu.Lock()
	if s.record = &next; next.Token != nil && (next.Visit != now.Visit || now.Token == nil || next.Token.AccessToken != now.Token.AccessToken) {
		s.challenge, s.more, s.missed = nil, false, false
	}
	moved := s.moved
	s.mu.Unlock()
	if moved {
		return
	}
	text, err := json.Marshal(&next)
	if err == nil {
		err = s.cfg.Vault.Save(s.key, text)
	}
	if err != nil {
		s.cfg.Log.Warn("sign-in to an MCP server could not be stored; it is lost when the daemon stops", zap.String("server", s.key), zap.Error(err))
	}
}

// refused records that the server refused the token in the parameter used. visit is the visit that produced this token. When the current
// token is a different one, or comes from another visit, refused records nothing and returns false.
func (s *signin) refused(used, visit string, resp *http.Response) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.record.Token; t != nil && (t.AccessToken != used || s.record.Visit != visit) {
		return false
	}
	s.challenge, s.more, s.missed = resp.Header.Values("WWW-Authenticate"), resp.StatusCode == http.StatusForbidden, true
	return true
}
