package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
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
	maxHidden   = 16               // values that are taken out of what the server sends
	hiddenMark  = "[token]"        // what stands in their place
	leastHidden = 8                // bytes of a value that is taken out: longer than the mark, so that no message grows
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
	client   *Client // nil: the daemon registers itself
	cfg      *Config
	http     *http.Client

	turn    chan struct{} // of who begins a visit
	writing sync.Mutex    // of the record: one after the other

	mu        sync.Mutex
	record    *record // never changed in place
	gone      bool    // another address has the key: nothing is kept any more
	renewing  *renewal
	hidden    []string // newest last
	challenge []string // WWW-Authenticate of a refusal; nil: none
}

// A record is what is kept of a server.
type record struct {
	Server string        `json:"server"` // the URL that it is for
	Way    way           `json:"way"`
	Token  *oauth2.Token `json:"token,omitempty"` // nil: nobody signed in
	Visit  string        `json:"visit,omitempty"` // the state of the visit that brought it
	Member *member       `json:"member,omitempty"`
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
	done chan struct{}
	ok   bool // read after done
}

// newSignin returns nil for servers to which nobody can sign in, or whose headers say already who the daemon is.
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
			r.Token = nil // it was given to somebody else
		}
		s.record = &r
	}
	s.learn(s.record)
	return s
}

// same reports whether what one of them knows counts for the other.
func (s *signin) same(other *signin) bool {
	return s != nil && other != nil && s.url == other.url && reflect.DeepEqual(s.client, other.client)
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
	return s.challenge != nil
}

func (s *signin) current() *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record
}

// token returns what a request is sent with; empty when there is none.
func (s *signin) token(ctx context.Context) string {
	t := s.current().Token
	if t == nil {
		return ""
	}
	soon := early
	if t.ExpiresIn > 0 && t.ExpiresIn < int64(2*early/time.Second) {
		soon = time.Duration(t.ExpiresIn) * time.Second / 2
	}
	if e := t.Expiry; !e.IsZero() && time.Until(e) < soon && s.renew(ctx, t.AccessToken) {
		if now := s.current().Token; now != nil {
			t = now
		}
	}
	return t.AccessToken
}

// renew has a token replaced that is not good any more, and reports whether there is another one. All who want that wait for
// one renewal, which goes on when nobody waits: its answer may be the only way to know what the next one needs.
func (s *signin) renew(ctx context.Context, used string) bool {
	s.mu.Lock()
	r, under := s.record, s.renewing
	switch {
	case r.Token == nil || ctx.Err() != nil:
		s.mu.Unlock()
		return false
	case r.Token.AccessToken != used:
		s.mu.Unlock()
		return true // somebody else was faster
	case r.Token.RefreshToken == "":
		s.mu.Unlock()
		return false
	}
	if under == nil {
		under = &renewal{done: make(chan struct{})}
		s.renewing = under
		go s.replace(r, under) // ends after renewalTime; settle waits for it
	}
	s.mu.Unlock()
	select {
	case <-under.done:
		return under.ok
	case <-ctx.Done():
		return false
	}
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
	c := clientcredentials.Config{ // it asks for what it is told to
		ClientID: r.Way.Client, ClientSecret: s.secret(&r.Way), TokenURL: r.Way.URL, AuthStyle: oauth2.AuthStyle(r.Way.Style),
		EndpointParams: url.Values{"grant_type": {"refresh_token"}, "refresh_token": {r.Token.RefreshToken}, "resource": {r.Way.Resource}},
	}
	next, err := c.Token(ctx)
	if err == nil {
		err = bearer(next)
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
	s.renewing = nil
	s.mu.Unlock()
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
	if s.client != nil {
		return s.client.Secret
	}
	return w.Secret
}

// change puts another record in force and keeps it. One that cannot be kept is in force all the same: what it replaces may be
// good for nothing any more.
func (s *signin) change(f func(*record)) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	next, before := *s.record, s.record.Token
	f(&next)
	if s.record = &next; next.Token != nil && (before == nil || next.Token.AccessToken != before.AccessToken) {
		s.challenge = nil
	}
	gone := s.gone
	s.mu.Unlock()
	s.learn(&next)
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

// learn has the values of a record taken out of what anybody is told.
func (s *signin) learn(r *record) {
	values := []string{s.secret(&r.Way)}
	if r.Member != nil {
		values = append(values, r.Member.Secret)
	}
	if r.Token != nil {
		values = append(values, r.Token.RefreshToken, r.Token.AccessToken)
	}
	for _, v := range values {
		if len(v) < leastHidden { // it is no secret
			continue
		}
		if r.Token != nil && random.MatchString(v) && s.cfg.Known != nil { // a person agreed to who chose it
			s.cfg.Known(v)
		}
		s.mu.Lock()
		s.hidden = append(slices.DeleteFunc(s.hidden, func(o string) bool { return o == v }), v)
		s.hidden = s.hidden[max(0, len(s.hidden)-maxHidden):]
		s.mu.Unlock()
	}
}

// random is what values look like that are taken out of what others than the server tell. Its authorization server chose
// them: words, which are others' too, stay.
var random = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]{16,}$`)

// hide takes what the daemon is known by, or was lately, out of what the server sends.
func (s *signin) hide(message []byte) []byte {
	if s == nil {
		return message
	}
	s.mu.Lock()
	hidden := slices.Clone(s.hidden)
	s.mu.Unlock()
	for _, v := range hidden {
		for _, form := range []string{v, strings.ReplaceAll(v, "/", `\/`)} {
			if bytes.Contains(message, []byte(form)) { // else it would be copied
				message = bytes.ReplaceAll(message, []byte(form), []byte(hiddenMark))
			}
		}
	}
	return message
}

// refused notes that a server does not know the daemon by a token, unless there is another one meanwhile.
func (s *signin) refused(used string, h http.Header) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.record.Token; t != nil && t.AccessToken != used {
		return false
	}
	s.challenge = append([]string{}, h.Values("WWW-Authenticate")...)
	return true
}
