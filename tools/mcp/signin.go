package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/toold-dev/toold/sandbox/address"
	"github.com/toold-dev/toold/tool"
)

// callback is where a browser ends after a sign-in. Nobody listens there: a person hands its address over, and without the
// verifier that the daemon keeps the code in it is worth nothing.
const callback = "http://127.0.0.1:33418/callback"

// early is how long before its end a token is renewed.
const early = 30 * time.Second

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

// A signin is how the daemon is known to a server over HTTP.
type signin struct {
	entry *Entry
	vault Vault
	http  *http.Client

	renewing sync.Mutex // one at a time

	mu        sync.Mutex
	grant     *grant
	challenge []string // WWW-Authenticate of a refusal; nil: none
}

// A grant is what a sign-in brought, as it is kept.
type grant struct {
	Server string        `json:"server"` // the URL that it is for
	Way    way           `json:"way"`
	Token  *oauth2.Token `json:"token"`
}

// A way is how tokens are had.
type way struct {
	Issuer   string   `json:"issuer"`
	URL      string   `json:"url"` // of tokens
	Client   string   `json:"client"`
	Secret   string   `json:"secret,omitempty"`
	Style    int      `json:"style"`
	Resource string   `json:"resource"`
	Scopes   []string `json:"scopes,omitempty"`
}

func (w *way) config(page string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: w.Client, ClientSecret: w.Secret, RedirectURL: callback, Scopes: w.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: page, TokenURL: w.URL, AuthStyle: oauth2.AuthStyle(w.Style)},
	}
}

// A visit is a sign-in that a person was asked for.
type visit struct {
	Way      way    `json:"way"`
	State    string `json:"state"`
	Verifier string `json:"verifier"`
	Named    bool   `json:"named,omitempty"` // the answer names its issuer
	Page     string `json:"page"`
}

// newSignin returns nil for servers to which nobody can sign in, or whose headers say already who the daemon is.
func newSignin(e *Entry, v Vault) *signin {
	if e.URL == "" || v == nil {
		return nil
	}
	for name := range e.Headers {
		if strings.EqualFold(name, "Authorization") {
			return nil
		}
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	if u, err := url.Parse(e.URL); err == nil && !loopback(u.Hostname()) {
		dialer.ControlContext = address.Rules{}.Control // what a server names may not be a machine of ours
	}
	s := &signin{entry: e, vault: v, http: &http.Client{
		Timeout:       30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true,
		},
	}}
	var g grant
	if text, ok := v.Load(e.Key); ok && json.Unmarshal(text, &g) == nil && g.Server == e.URL && g.Token != nil {
		s.grant = &g
	}
	return s
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

// token returns what a request is sent with; empty when there is none.
func (s *signin) token(ctx context.Context) string {
	s.mu.Lock()
	g := s.grant
	s.mu.Unlock()
	if g == nil {
		return ""
	}
	if e := g.Token.Expiry; !e.IsZero() && time.Until(e) < early && s.renew(ctx, g.Token.AccessToken) {
		s.mu.Lock()
		g = s.grant
		s.mu.Unlock()
	}
	return g.Token.AccessToken
}

// renew has a token replaced that is not good any more, and reports whether there is another one.
func (s *signin) renew(ctx context.Context, used string) bool {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	s.mu.Lock()
	g := s.grant
	s.mu.Unlock()
	if g == nil {
		return false
	}
	if g.Token.AccessToken != used {
		return true // somebody else was faster
	}
	if g.Token.RefreshToken == "" {
		return false
	}
	old := &oauth2.Token{RefreshToken: g.Token.RefreshToken}
	next, err := g.Way.config("").TokenSource(context.WithValue(ctx, oauth2.HTTPClient, s.http), old).Token()
	if err != nil {
		return false
	}
	return s.keep(&grant{g.Server, g.Way, next}) == nil
}

func (s *signin) keep(g *grant) error {
	text, err := json.Marshal(g)
	if err == nil {
		err = s.vault.Save(s.entry.Key, text)
	}
	if err != nil {
		return fmt.Errorf("keep what the sign-in brought: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grant, s.challenge = g, nil
	return nil
}

// refused notes that a server does not know the daemon by a token, unless there is another one meanwhile.
func (s *signin) refused(used string, h http.Header) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grant != nil && s.grant.Token.AccessToken != used {
		return false
	}
	s.challenge = append([]string{}, h.Values("WWW-Authenticate")...)
	return true
}

// errSignIn means that somebody has to sign in.
var errSignIn = errors.New("the server wants somebody to sign in, which a call of one of its tools asks for")

// begin finds out where somebody signs in, and makes the daemon known there.
func (s *signin) begin(ctx context.Context) (*visit, error) {
	s.mu.Lock()
	list := s.challenge
	s.mu.Unlock()
	challenges, err := oauthex.ParseWWWAuthenticate(list)
	if err != nil {
		return nil, err
	}
	about, scopes := s.about(ctx, challenges)
	at, err := auth.GetAuthServerMetadata(ctx, about.AuthorizationServers[0], s.http)
	if err != nil {
		return nil, err
	}
	if at == nil { // of the era before there was such a description
		root := strings.TrimSuffix(about.AuthorizationServers[0], "/")
		at = &oauthex.AuthServerMeta{
			Issuer: root, AuthorizationEndpoint: root + "/authorize", TokenEndpoint: root + "/token", RegistrationEndpoint: root + "/register",
		}
	}
	v := &visit{
		Way:   way{Issuer: at.Issuer, URL: at.TokenEndpoint, Resource: about.Resource, Scopes: scopes, Style: int(oauth2.AuthStyleInParams)},
		State: oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier(), Named: at.AuthorizationResponseIssParameterSupported,
	}
	if err := s.register(ctx, at, &v.Way); err != nil {
		return nil, err
	}
	v.Page = v.Way.config(at.AuthorizationEndpoint).AuthCodeURL(v.State, oauth2.S256ChallengeOption(v.Verifier),
		oauth2.SetAuthURLParam("resource", v.Way.Resource))
	q, err := newQuestion("", &sdk.ElicitParams{Mode: "url", URL: v.Page})
	if err != nil {
		return nil, err
	}
	v.Page = q.URL
	return v, nil
}

// about is what the server says of who may sign in where; without it the server does so itself, as in the era of 2025-03-26.
func (s *signin) about(ctx context.Context, challenges []oauthex.Challenge) (about *oauthex.ProtectedResourceMetadata, scopes []string) {
	u, err := url.Parse(s.entry.URL)
	if err != nil { // it was checked
		u = &url.URL{}
	}
	root := &url.URL{Scheme: u.Scheme, Host: u.Host}
	const known = "/.well-known/oauth-protected-resource"
	places := [][2]string{{root.String() + known + u.Path, s.entry.URL}, {root.String() + known, root.String()}}
	for _, c := range challenges {
		if at := c.Params["resource_metadata"]; at != "" {
			places = append([][2]string{{at, s.entry.URL}, {at, root.String()}}, places...)
		}
		if c.Scheme == "bearer" && c.Params["scope"] != "" {
			scopes = strings.Fields(c.Params["scope"])
		}
	}
	for _, p := range places {
		if about, err = oauthex.GetProtectedResourceMetadata(ctx, p[0], p[1], s.http); err == nil && about != nil && len(about.AuthorizationServers) > 0 {
			break
		}
		about = nil
	}
	if about == nil {
		about = &oauthex.ProtectedResourceMetadata{Resource: s.entry.URL, AuthorizationServers: []string{root.String()}}
	}
	if len(scopes) == 0 {
		scopes = about.ScopesSupported
	}
	if c := s.entry.Client; c != nil && len(c.Scopes) > 0 {
		scopes = c.Scopes
	}
	return about, scopes
}

// register makes the daemon known, unless it is.
func (s *signin) register(ctx context.Context, at *oauthex.AuthServerMeta, w *way) error {
	if c := s.entry.Client; c != nil {
		w.Client, w.Secret, w.Style = c.ID, c.Secret, int(oauth2.AuthStyleAutoDetect)
		return nil
	}
	if at.RegistrationEndpoint == "" {
		return errors.New("the authorization server registers nobody: give auth.CLIENT_ID in the file of servers")
	}
	got, err := oauthex.RegisterClient(ctx, at.RegistrationEndpoint, &oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{callback}, TokenEndpointAuthMethod: "none", GrantTypes: []string{"authorization_code", "refresh_token"},
		ResponseTypes: []string{"code"}, ClientName: "toold", ApplicationType: "native", Scope: strings.Join(w.Scopes, " "),
	}, s.http)
	if err != nil {
		return err
	}
	w.Client, w.Secret = got.ClientID, got.ClientSecret
	if got.TokenEndpointAuthMethod == "client_secret_basic" {
		w.Style = int(oauth2.AuthStyleInHeader)
	}
	return nil
}

// finish takes the address that a browser ended at.
func (s *signin) finish(ctx context.Context, v *visit, address string) error {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Query().Get("state") == "" {
		return errors.New("that is not the address that the browser ends at after the sign-in")
	}
	q := u.Query()
	switch {
	case q.Get("state") != v.State:
		return errors.New("that address is of another sign-in")
	case q.Get("error") != "":
		return fmt.Errorf("refused: %s", cleanLine(q.Get("error")+" "+q.Get("error_description"), maxDescription))
	case q.Get("iss") != v.Way.Issuer && (v.Named || q.Get("iss") != ""):
		return errors.New("another authorization server answered than the one that was asked")
	}
	token, err := v.Way.config("").Exchange(context.WithValue(ctx, oauth2.HTTPClient, s.http), q.Get("code"),
		oauth2.VerifierOption(v.Verifier), oauth2.SetAuthURLParam("resource", v.Way.Resource))
	if err != nil {
		return errors.New(cleanLine(strings.ReplaceAll(err.Error(), q.Get("code"), "…"), maxDescription))
	}
	return s.keep(&grant{s.entry.URL, v.Way, token})
}

// ticket asks somebody to sign in.
func (s *signin) ticket(v *visit) tool.Ticket {
	u, err := url.Parse(v.Page)
	if err != nil { // it was checked
		u = &url.URL{}
	}
	return tool.Ticket{
		Action: "auth",
		Message: "The server " + cleanLine(s.entry.Key, maxTitle) + " wants somebody to sign in at " + u.Host +
			". Open the page; the browser ends at an address that it cannot show and that begins with " + callback + ": answer with that whole address.\n" + v.Page,
		Parameters: encode(map[string]string{"server": s.entry.Key, "url": v.Page, "host": u.Host, "redirect": callback}),
		ResponseSchema: json.RawMessage(`{"type":"object","properties":{"address":{"type":"string","title":"Address","description":"Where the browser ended","maxLength":8192}},` +
			`"required":["address"],"additionalProperties":false}`),
	}
}
