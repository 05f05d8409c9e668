package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/toold-dev/toold/tool"
)

// callback is the address to which a browser is redirected after a sign-in. No server listens there; the person copies the address from the
// browser into the answer. The code in it is useless without the verifier, which only the daemon has.
const callback = "http://127.0.0.1:33418/callback"

// membership is the time for which a registration is used for further sign-ins. It is limited, because an authorization server may delete
// the registration, and only the person at the sign-in page would see that.
const membership = time.Hour

// maxEarlier is the number of registrations that are kept in addition to the latest one.
const maxEarlier = 4

// A visit is one request to a person to sign in. It is stored in the checkpoint of the call, so it contains no secret of a client.
type visit struct {
	Server   string `json:"server"` // URL of the server
	Way      way    `json:"way"`
	State    string `json:"state"`
	Verifier string `json:"verifier"`
	Before   string `json:"before,omitempty"` // state of the visit that produced the daemon's token when this visit began
	Named    bool   `json:"named,omitempty"`  // the authorization server says that the address after the sign-in contains its issuer (RFC 9207)
	Page     string `json:"page"`
}

// A member is one registration of the daemon at an authorization server.
type member struct {
	Issuer string    `json:"issuer"`
	ID     string    `json:"id"`
	Secret string    `json:"secret,omitempty"`
	Style  int       `json:"style"`
	Scope  string    `json:"scope,omitempty"`
	Since  time.Time `json:"since"`
}

// members returns the registrations, newest first.
func (r *record) members() []*member {
	if r.Member == nil {
		return nil
	}
	return append([]*member{r.Member}, r.Earlier...)
}

func (w *way) config(page, secret string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: w.Client, ClientSecret: secret, RedirectURL: callback, Scopes: w.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: page, TokenURL: w.URL, AuthStyle: oauth2.AuthStyle(w.Style)},
	}
}

// errSignIn means that the server accepts no request before a person has signed in.
var errSignIn = errors.New("a person must sign in to the server; call one of its tools to start the sign-in")

// begin prepares a visit: it finds the authorization server and registers the daemon there.
func (s *signin) begin(ctx context.Context) (*visit, error) {
	select {
	case s.turn <- struct{}{}: // Only one goroutine continues, so that many calls register the daemon only once.
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	about, scopes := s.about(ctx)
	at, err := s.issuer(ctx, about)
	if err != nil {
		return nil, err
	}
	if err := plain(at.Issuer, at.AuthorizationEndpoint, at.TokenEndpoint); err != nil {
		return nil, err
	}
	scopes = s.together(at.Issuer, scopes)
	v := &visit{
		Server: s.url, Before: s.current().Visit,
		Way:   way{Issuer: at.Issuer, URL: at.TokenEndpoint, Resource: s.url, Scopes: scopes},
		State: oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier(), Named: at.AuthorizationResponseIssParameterSupported,
	}
	if about != nil {
		v.Way.Resource = about.Resource
	}
	if err := s.register(ctx, at, &v.Way); err != nil {
		return nil, err
	}
	v.Page = v.Way.config(at.AuthorizationEndpoint, "").AuthCodeURL(v.State, oauth2.S256ChallengeOption(v.Verifier),
		oauth2.SetAuthURLParam("resource", v.Way.Resource))
	q, err := newQuestion("", &sdk.ElicitParams{Mode: "url", URL: v.Page})
	if err != nil {
		return nil, err
	}
	v.Page = q.URL
	return v, nil
}

// challenged returns the parameters of the first bearer challenge in the last refusal. It ignores other challenges and malformed ones.
func (s *signin) challenged() (about string, scopes []string) {
	s.mu.Lock()
	list := s.challenge
	s.mu.Unlock()
	for _, text := range list {
		challenges, err := oauthex.ParseWWWAuthenticate([]string{text})
		if err != nil {
			continue
		}
		for _, c := range challenges {
			if c.Scheme == "bearer" {
				return c.Params["resource_metadata"], strings.Fields(c.Params["scope"])
			}
		}
	}
	return "", nil
}

// about returns the server's metadata about its authorization servers, or nil when the server has none. It also returns the scopes to ask
// for.
func (s *signin) about(ctx context.Context) (about *oauthex.ProtectedResourceMetadata, scopes []string) {
	u, err := url.Parse(s.url)
	if err != nil { // This cannot happen, because the URL was checked before.
		u = &url.URL{}
	}
	root := &url.URL{Scheme: u.Scheme, Host: u.Host}
	const known = "/.well-known/oauth-protected-resource"
	candidates := [][2]string{{root.String() + known + u.Path, s.url}, {root.String() + known, root.String()}}
	at, scopes := s.challenged()
	if at != "" {
		candidates = append([][2]string{{at, s.url}, {at, root.String()}}, candidates...)
	}
	for _, p := range candidates {
		if about, err = oauthex.GetProtectedResourceMetadata(ctx, p[0], p[1], s.http); err == nil && about != nil && len(about.AuthorizationServers) > 0 {
			break
		}
		about = nil
	}
	if len(scopes) == 0 && about != nil {
		scopes = about.ScopesSupported
	}
	if c := s.operators(); c != nil && len(c.Scopes) > 0 {
		scopes = c.Scopes
	}
	return about, scopes
}

// plain returns an error for an address that a person could mistake for another one when reading it in a ticket.
func plain(addresses ...string) error {
	for _, text := range addresses {
		u, err := url.Parse(text)
		if err != nil || len(text) > maxPage || u.User != nil || !plainHost(u.Host) {
			return errors.New("the authorization server gives an address that could be mistaken for another one: " + cleanLine(fmt.Sprintf("%q", cut(text, maxTitle)), 2*maxTitle))
		}
	}
	return nil
}

// together returns the scopes to ask for. When the server refused the token only for missing scopes, they include the token's scopes,
// because the next token replaces the current one.
func (s *signin) together(issuer string, scopes []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.record
	if !s.more || r.Token == nil || r.Way.Issuer != issuer || s.client != nil && len(s.client.Scopes) > 0 {
		return scopes
	}
	all := slices.Clone(r.Way.Scopes)
	for _, scope := range scopes {
		if !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	return all
}

// issuer returns the metadata of the authorization server. When the MCP server names no authorization server, it counts as its own
// authorization server, as in the era of 2025-03-26. When such a server publishes no endpoints, the default endpoints are used.
func (s *signin) issuer(ctx context.Context, about *oauthex.ProtectedResourceMetadata) (*oauthex.AuthServerMeta, error) {
	if about != nil {
		at, err := auth.GetAuthServerMetadata(ctx, about.AuthorizationServers[0], s.http)
		if err == nil && at == nil {
			err = errors.New("the authorization server " + about.AuthorizationServers[0] + " publishes no metadata")
		}
		return at, err
	}
	u, err := url.Parse(s.url)
	if err != nil {
		return nil, err
	}
	root := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	at, err := auth.GetAuthServerMetadata(ctx, root, s.http)
	if err == nil && at == nil {
		at = &oauthex.AuthServerMeta{
			Issuer: root, AuthorizationEndpoint: root + "/authorize", TokenEndpoint: root + "/token", RegistrationEndpoint: root + "/register",
		}
	}
	return at, err
}

// style returns how the operator's client authenticates. The method must be chosen in advance, because a code may be sent only once, so
// trying another method is not possible.
func style(secret string, methods []string) int {
	if secret == "" || slices.Contains(methods, "client_secret_post") && !slices.Contains(methods, "client_secret_basic") {
		return int(oauth2.AuthStyleInParams)
	}
	return int(oauth2.AuthStyleInHeader)
}

// register sets the client in w: the operator's client, a recent registration, or else a new registration of the daemon.
func (s *signin) register(ctx context.Context, at *oauthex.AuthServerMeta, w *way) error {
	if c := s.operators(); c != nil {
		w.Client, w.Given, w.Style = c.ID, true, style(c.Secret, at.TokenEndpointAuthMethodsSupported)
		return nil
	}
	scope := strings.Join(w.Scopes, " ")
	for _, m := range s.current().members() {
		if m.Issuer == at.Issuer && m.Scope == scope && time.Since(m.Since).Abs() < membership {
			w.Client, w.Style = m.ID, m.Style
			return nil
		}
	}
	if at.RegistrationEndpoint == "" {
		return errors.New("the authorization server does not register clients: set auth.CLIENT_ID in the file of servers")
	}
	got, err := oauthex.RegisterClient(ctx, at.RegistrationEndpoint, &oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{callback}, TokenEndpointAuthMethod: "none", GrantTypes: []string{"authorization_code", "refresh_token"},
		ResponseTypes: []string{"code"}, ClientName: "toold", ApplicationType: "native", Scope: scope,
	}, s.http)
	if refusal, ok := errors.AsType[*oauthex.ClientRegistrationError](err); ok {
		return refusal
	}
	if err != nil { // The text of the error is not used, because it may contain the response with a secret.
		return errors.New("the authorization server " + at.Issuer + " did not register the daemon")
	}
	m := &member{Issuer: at.Issuer, ID: got.ClientID, Secret: got.ClientSecret, Style: int(oauth2.AuthStyleInParams), Scope: scope, Since: time.Now()}
	switch got.TokenEndpointAuthMethod {
	case "client_secret_basic":
		m.Style = int(oauth2.AuthStyleInHeader)
	case "none":
		m.Secret = ""
	}
	s.change(func(r *record) {
		r.Earlier = r.members()
		r.Earlier = r.Earlier[:min(len(r.Earlier), maxEarlier)]
		r.Member = m
	})
	w.Client, w.Style = m.ID, m.Style
	return nil
}

// finish completes a sign-in. address is the address to which the browser was redirected.
func (s *signin) finish(ctx context.Context, v *visit, address string) error {
	now, client := s.current(), s.operators()
	if v.Server != s.url || v.Way.Given != (client != nil) || client != nil && client.ID != v.Way.Client {
		return errors.New("the server's address or client has changed")
	}
	if now.Visit != v.Before {
		return nil // Nothing needs to be done: another sign-in happened meanwhile, or this sign-in was already stored before the daemon ended.
	}
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Query().Get("state") == "" {
		return errors.New("that is not the browser's address after the sign-in")
	}
	q := u.Query()
	switch {
	case q.Get("state") != v.State:
		return errors.New("that address belongs to another sign-in")
	case q.Get("iss") != v.Way.Issuer && (v.Named || q.Get("iss") != ""):
		return errors.New("the answer came from a different authorization server")
	case q.Get("error") != "":
		return fmt.Errorf("refused: %s", cleanLine(q.Get("error")+" "+q.Get("error_description"), maxDescription))
	case q.Get("code") == "":
		return errors.New("that address contains no code")
	}
	w := v.Way
	for _, m := range now.members() {
		if client == nil && m.ID == w.Client && m.Issuer == w.Issuer {
			w.Secret = m.Secret
		}
	}
	token, err := w.config("", s.secret(&w)).Exchange(context.WithValue(ctx, oauth2.HTTPClient, s.http), q.Get("code"),
		oauth2.VerifierOption(v.Verifier), oauth2.SetAuthURLParam("resource", w.Resource))
	if err == nil {
		err = bearer(token)
	}
	if err != nil {
		return errors.New(s.hideText(refusal(err).Error())) // The error text may contain the daemon's credentials, which hideText redacts.
	}
	s.change(func(r *record) {
		if r.Visit == v.Before { // When the visits differ, another person has signed in meanwhile, and the token of that sign-in is kept.
			r.Way, r.Token, r.Visit = w, token, v.State
		}
	})
	return nil
}

// refusal returns an error with the authorization server's answer, without the parts that may contain credentials.
func refusal(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return errors.New("the authorization server answered " + cleanLine(cmp.Or(refused.ErrorCode, refused.Response.Status), maxTitle))
	}
	return errors.New(cleanLine(err.Error(), maxDescription))
}

// ticket returns the ticket that asks a person to sign in.
func (s *signin) ticket(v *visit) tool.Ticket {
	u, err := url.Parse(v.Page)
	if err != nil { // This cannot happen, because the URL was checked before.
		u = &url.URL{}
	}
	where, receiver := u.Host, u.Host
	if to, err := url.Parse(v.Way.URL); err == nil && to.Host != u.Host {
		receiver = to.Host
		where += " (" + to.Host + " receives the sign-in)"
	}
	return tool.Ticket{
		Action: "auth",
		Message: "The server " + cleanLine(s.key, maxTitle) + " requires a sign-in at " + where +
			". Open the page and sign in. The browser then tries to open an address that begins with " + callback + ", and cannot show it. Answer with that whole address.\n" + v.Page,
		Parameters: encode(map[string]any{
			"server": s.key, "url": v.Page, "host": u.Host, "receiver": receiver, "issuer": v.Way.Issuer, "resource": v.Way.Resource,
			"scopes": append([]string{}, v.Way.Scopes...), "redirect": callback,
		}),
		ResponseSchema: json.RawMessage(`{"type":"object","properties":{"address":{"type":"string","title":"Address","description":"The browser's address after the sign-in","maxLength":8192}},` +
			`"required":["address"],"additionalProperties":false}`),
	}
}
