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
	early       = 30 * time.Second // before its end a token is renewed, or in the second half of a short life
	renewalTime = 10 * time.Second // for a renewal
	renewalRest = 5 * time.Second  // after one that failed, while the token is good
)

// A Vault keeps what sign-ins brought, where nobody else can read it.
type Vault interface {
	Load(key string) (text []byte, ok bool)
	Save(key string, text []byte) error
}

// A Client is what an authorization server knows the daemon by. Without one the daemon registers itself.
type Client struct {
	ID, Secret string
	Scopes     []string // none: those that the server asks for
}

// A signin is how the daemon is known to a server over HTTP. Servers that follow each other at one address share it: what a
// token is renewed with may be good once.
type signin struct {
	key, url string
	cfg      *Config
	http     *http.Client

	turn    chan struct{} // of the goroutine that begins a visit
	writing sync.Mutex    // of the record: one after the other

	mu        sync.Mutex
	record    *record // never changed in place
	client    *Client // nil: the daemon registers itself
	gone      bool    // another address has the key: nothing is kept any more
	renewing  *renewal
	failed    time.Time // when the last renewal did
	silent    time.Time // since when nobody answers renewals; zero: somebody did
	hidden    []string  // newest last
	challenge []string  // WWW-Authenticate of the last refusal; nil: none
	more      bool      // it was of what the token does not allow, which is good
	missed    bool      // nobody was let in since, and nobody else signed in
}

// A record is what is kept of a server.
type record struct {
	Server string        `json:"server"` // the URL that it is for
	Way    way           `json:"way"`
	Token  *oauth2.Token `json:"token,omitempty"` // nil: nobody signed in
	Visit  string        `json:"visit,omitempty"` // the state of the visit that brought it
	Member *member       `json:"member,omitempty"`

	Earlier []*member `json:"earlier,omitempty"` // newest first: visits that are open may be of them
}

// A way is how tokens are had.
type way struct {
	Issuer   string   `json:"issuer"`
	URL      string   `json:"url"` // of tokens
	Client   string   `json:"client"`
	Given    bool     `json:"given,omitempty"`  // the operator named the client
	Secret   string   `json:"secret,omitempty"` // of one that registered itself; in the vault alone
	Style    int      `json:"style"`
	Resource string   `json:"resource"`
	Scopes   []string `json:"scopes,omitempty"`
}

// A renewal is one that is under way.
type renewal struct {
	done   chan struct{}
	ok     bool  // read after done, as what follows
	silent error // why nobody answered, which may be otherwise in a moment; nil: somebody did, or nobody has for long
}

// newSignin returns nil for servers without sign-in, and for those whose headers identify the daemon already.
func newSignin(e *Entry, cfg *Config) *signin {
	if e.URL == "" || cfg.Vault == nil {
		return nil
	}
	for name := range e.Headers {
		if strings.EqualFold(name, "Authorization") {
			return nil
		}
	}
	var rules address.Rules // what a server names may not be a machine of ours
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
			r.Token = nil // it was issued for another server
		}
		s.record = &r
	}
	s.learn(s.record)
	return s
}

// same reports whether what one of them knows counts for the other.
func (s *signin) same(other *signin) bool {
	return s != nil && other != nil && s.url == other.url && s.operators().id() == other.operators().id()
}

func (c *Client) id() string {
	if c == nil {
		return ""
	}
	return c.ID
}

// operators is the client that the operator named; nil when there is none.
func (s *signin) operators() *Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// adopt has what a reload says of a client count from now on.
func (s *signin) adopt(c *Client) {
	s.mu.Lock()
	s.client = c
	s.mu.Unlock()
	s.learn(s.current())
}

// abandon has nothing kept any more: another address has the key.
func (s *signin) abandon() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
}

// wanted reports whether the server refused the daemon because it does not know it.
func (s *signin) wanted() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missed
}

// admitted notes that the server takes the daemon as it is.
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

// token returns what a request is sent with; empty when there is none. It is silent when it has ended and nobody answered who
// could renew it.
func (s *signin) token(ctx context.Context) (token string, silent error) {
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
	if left > 0 { // it is good, and nobody waits for the next one
		s.renewal(t.AccessToken, true)
		return t.AccessToken, nil
	}
	renewed, silent := s.renew(ctx, t.AccessToken)
	if now := s.current().Token; renewed && now != nil {
		t = now
	}
	return t.AccessToken, silent
}

// renew replaces a token that is not valid any more, and reports whether there is another one. All callers wait for
// one renewal, which continues without callers: its answer may be the only way to know what the next one needs.
func (s *signin) renew(ctx context.Context, used string) (renewed bool, silent error) {
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
		return under.ok, under.silent
	case <-ctx.Done():
		return false, nil
	}
}

// renewal begins one, unless it is under way. There is none when nothing is known to renew with, or when there is another
// token already. An early one waits after one that failed.
func (s *signin) renewal(used string, early bool) (under *renewal, other bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.record
	switch {
	case r.Token == nil:
		return nil, false
	case r.Token.AccessToken != used:
		return nil, true // another goroutine was faster
	case r.Token.RefreshToken == "" || early && time.Since(s.failed) < renewalRest:
		return nil, false
	}
	if s.renewing == nil {
		s.renewing = &renewal{done: make(chan struct{})}
		go s.replace(r, s.renewing) // ends after renewalTime; settle waits for it
	}
	return s.renewing, false
}

// settle waits for a renewal that is under way.
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

// replace is a renewal. A refusal is for good: what was refused is not shown again.
func (s *signin) replace(r *record, under *renewal) {
	defer close(under.done)
	ctx, stop := context.WithTimeout(context.WithValue(context.Background(), oauth2.HTTPClient, s.http), renewalTime)
	defer stop()
	c := clientcredentials.Config{ // it asks for the configured scopes
		ClientID: r.Way.Client, ClientSecret: s.secret(&r.Way), TokenURL: r.Way.URL, AuthStyle: oauth2.AuthStyle(r.Way.Style),
		EndpointParams: url.Values{"grant_type": {"refresh_token"}, "refresh_token": {r.Token.RefreshToken}, "resource": {r.Way.Resource}},
	}
	next, err := c.Token(ctx)
	silent := unanswered(err)
	if err == nil {
		if err = bearer(next); err != nil { // but what comes with it may be all that the next one can be had with
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
			if now.Token == r.Token { // nobody signed in meanwhile
				now.Token, under.ok = next, err == nil
			}
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case silent == nil:
		s.silent = time.Time{}
	case s.silent.IsZero() || now.Sub(s.failed) > max(s.cfg.Silence, 2*maxBackoff): // it was not asked meanwhile
		s.silent = now
	}
	if now.Sub(s.silent) < s.cfg.Silence {
		under.silent = silent
	}
	if s.renewing = nil; err != nil {
		s.failed = now
	}
}

// unanswered says why nobody judged a renewal; nil when somebody did. What is out of order is no refusal.
func unanswered(err error) error {
	said, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case err == nil:
		return nil
	case !ok: // nobody was reached, or it is no answer
		return errors.New("no renewal of the sign-in: " + cleanLine(err.Error(), maxDescription))
	case said.Response.StatusCode >= 500 || said.Response.StatusCode == http.StatusTooManyRequests:
		return errors.New("no renewal of the sign-in: the authorization server answers " + cleanLine(said.Response.Status, maxTitle))
	}
	return nil
}

// bearer refuses a token that is sent in another way or could not be hidden, and notes how long one lives.
func bearer(t *oauth2.Token) error {
	if len(t.AccessToken) < leastHidden {
		return fmt.Errorf("the authorization server gave a token of fewer than %d bytes", leastHidden)
	}
	if !strings.EqualFold(t.Type(), "Bearer") {
		return errors.New("the authorization server gave a token that is no bearer's")
	}
	if !t.Expiry.IsZero() {
		t.ExpiresIn = max(1, int64(time.Until(t.Expiry)/time.Second))
	}
	return nil
}

// secret is the client's.
func (s *signin) secret(w *way) string {
	if c := s.operators(); c != nil {
		return c.Secret
	}
	return w.Secret
}

// change puts another record in force and keeps it. One that cannot be kept is in force all the same: what it replaces may be
// good for nothing any more.
func (s *signin) change(f func(*record)) {
	s.writing.Lock()
	defer s.writing.Unlock()
	now := s.current() // nobody else changes it
	next := *now
	f(&next)
	s.learn(&next) // before it is sent
	s.mu.Lock()
	if s.record = &next; next.Token != nil && (next.Visit != now.Visit || now.Token == nil || next.Token.AccessToken != now.Token.AccessToken) {
		s.challenge, s.more, s.missed = nil, false, false
	}
	gone := s.gone
	s.mu.Unlock()
	if gone {
		return
	}
	text, err := json.Marshal(&next)
	if err == nil {
		err = s.cfg.Vault.Save(s.key, text)
	}
	if err != nil {
		s.cfg.Log.Warn("sign-in to an MCP server is not kept and ends with the daemon", zap.String("server", s.key), zap.Error(err))
	}
}

// refused notes that a server does not know the daemon by a token, unless there is another one meanwhile, or the same of
// another visit.
func (s *signin) refused(used, visit string, resp *http.Response) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.record.Token; t != nil && (t.AccessToken != used || s.record.Visit != visit) {
		return false
	}
	s.challenge, s.more, s.missed = resp.Header.Values("WWW-Authenticate"), resp.StatusCode == http.StatusForbidden, true
	return true
}
