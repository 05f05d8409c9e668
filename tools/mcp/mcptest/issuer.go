package mcptest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// An Issuer is an authorization server, and an MCP server that accepts its tokens.
type Issuer struct {
	URL    string // listening address
	server *sdk.Server
	plain  bool // the server has neither metadata nor a resource description, as in the era of 2025-03-26

	requests atomic.Int32 // number of token requests

	mu             sync.Mutex
	n              int
	secret         string                      // secret of registered clients, which they must send
	holding        chan struct{}               // while it is not nil, answers to token requests wait until it is closed
	header         func(w http.ResponseWriter) // sets the headers of a refusal
	admits         func(token string) int      // returns the status with which a token is refused, or 0 to accept it; nil accepts valid tokens
	spent          map[string]bool             // refresh tokens that were used
	renewed, asked int                         // number of token renewals; number of requests for the resource description at a wrong path
	visits         int                         // number of requests to the MCP server
	received       []string                    // tokens that the MCP server received
	clients        map[string]bool
	codes          map[string]url.Values // parameters of authorization requests, by code
	tokens         map[string]bool       // valid tokens
	refresh        string
	expires        int
	given          any        // answer to token requests; nil means tokens
	last           url.Values // the last token request
	broken         http.HandlerFunc
}

// NewIssuer starts an Issuer over HTTP. mode is the mode of its MCP server, whose path is /mcp. A plain Issuer has no metadata. The caller
// must call end.
func NewIssuer(mode string, plain bool) (i *Issuer, end func()) {
	i = &Issuer{server: New(mode), plain: plain, clients: map[string]bool{"known": true}, codes: map[string]url.Values{}, tokens: map[string]bool{}, spent: map[string]bool{}, expires: 3600}
	h := Over(i.server)
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		status := i.judge(token)
		if status == 0 {
			if !i.complains(w, r, token) {
				h.ServeHTTP(w, r)
			}
			return
		}
		i.mu.Lock()
		header := i.header
		i.mu.Unlock()
		switch {
		case header != nil:
			header(w)
		case !plain:
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+i.URL+`/about", scope="tools offline_access"`)
		}
		http.Error(w, "who are you? not "+token, status)
	})
	if !plain {
		mux.HandleFunc("/about/other", func(w http.ResponseWriter, _ *http.Request) {
			i.mu.Lock()
			i.asked++
			i.mu.Unlock()
			http.NotFound(w, nil)
		})
		mux.HandleFunc("/about", func(w http.ResponseWriter, _ *http.Request) {
			i.say(w, map[string]any{"resource": i.URL + "/mcp", "authorization_servers": []string{i.URL}})
		})
		mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
			i.say(w, map[string]any{
				"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "registration_endpoint": i.URL + "/register",
				"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
			})
		})
	}
	mux.HandleFunc("POST /register", i.register)
	mux.HandleFunc("POST /token", i.token)
	s := httptest.NewServer(mux)
	i.URL = s.URL
	return i, func() {
		i.release()
		s.CloseClientConnections()
		s.Close()
		for session := range i.server.Sessions() {
			_ = session.Close() // No client uses the session any more, so an error does not matter.
		}
	}
}

func (i *Issuer) register(w http.ResponseWriter, _ *http.Request) {
	id := i.next("client")
	i.mu.Lock()
	i.clients[id] = true
	i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	if i.secret != "" {
		fmt.Fprintf(w, `{"client_id":%q,"client_secret":%q,"token_endpoint_auth_method":"client_secret_post"}`, id, i.secret)
		return
	}
	fmt.Fprintf(w, `{"client_id":%q,"token_endpoint_auth_method":"none","redirect_uris":["http://127.0.0.1:33418/callback"]}`, id)
}

func (i *Issuer) say(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (i *Issuer) next(what string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.n++
	return fmt.Sprintf("%s-0123456789abcdef-%d", what, i.n)
}

// judge returns the status with which the MCP server refuses a token, or 0 to accept it.
func (i *Issuer) judge(token string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.visits++
	if n := len(i.received); token != "" && (n == 0 || i.received[n-1] != token) {
		i.received = append(i.received, token)
	}
	switch {
	case i.admits != nil:
		return i.admits(token)
	case i.tokens[token]:
		return 0
	}
	return http.StatusUnauthorized
}

// Admit sets the function that checks the token of each request to the MCP server. The function returns the status with which the request
// is refused, or 0 to accept it. Nil restores the check of valid tokens.
func (i *Issuer) Admit(admits func(token string) (status int)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.admits = admits
}

// complains handles requests that contain "complain". It answers them with an error that contains the token, and returns true.
func (i *Issuer) complains(w http.ResponseWriter, r *http.Request, token string) bool {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct{ ID json.RawMessage }
	if !bytes.Contains(body, []byte("complain")) || json.Unmarshal(body, &m) != nil {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"bad: %s, %s"}}`, m.ID, token, i.refresh)
	return true
}

// Confidential sets the secret that every registered client gets. Clients must send it with token requests.
func (i *Issuer) Confidential(secret string) { i.mu.Lock(); defer i.mu.Unlock(); i.secret = secret }

// Refuse sets the function that sets the headers of refusals. Nil restores the standard header.
func (i *Issuer) Refuse(header func(w http.ResponseWriter)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.header = header
}

// SetLifetime sets the lifetime of new tokens, in seconds.
func (i *Issuer) SetLifetime(seconds int) { i.mu.Lock(); defer i.mu.Unlock(); i.expires = seconds }

// Give sets the answer to token requests. answer is a value that becomes JSON, or an [http.HandlerFunc] that writes the response. Nil
// restores the answer with tokens.
func (i *Issuer) Give(answer any) { i.mu.Lock(); defer i.mu.Unlock(); i.given = answer }

// Break makes the handler answer respond to all token requests, which then have no effect. Break(nil) restores the normal responses.
func (i *Issuer) Break(answer http.HandlerFunc) { i.mu.Lock(); defer i.mu.Unlock(); i.broken = answer }

// Hold delays the answers to token requests until release is called. The effect of the requests is not delayed.
func (i *Issuer) Hold() (release func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.holding = make(chan struct{})
	return i.release
}

func (i *Issuer) release() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.holding != nil {
		close(i.holding)
		i.holding = nil
	}
}

// Counts returns the number of token renewals, of registered clients, and of requests for the resource description at a wrong path.
func (i *Issuer) Counts() (renewed, registered, asked int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.renewed, len(i.clients) - 1, i.asked
}

// Visits returns the number of requests to the MCP server.
func (i *Issuer) Visits() int { i.mu.Lock(); defer i.mu.Unlock(); return i.visits }

// Received returns the tokens that the MCP server received.
func (i *Issuer) Received() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.received)
}

// Forget invalidates all access tokens. With renewal, it also invalidates the refresh token.
func (i *Issuer) Forget(renewal bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.tokens)
	if renewal {
		i.refresh = "gone"
	}
}

// Requests returns the number of token requests.
func (i *Issuer) Requests() int { return int(i.requests.Load()) }

// Last returns the parameters of the last token request.
func (i *Issuer) Last() url.Values {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.last
}

func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	i.requests.Add(1)
	i.mu.Lock()
	broken := i.broken
	i.mu.Unlock()
	if broken != nil {
		broken(w, r)
		return
	}
	access, refresh := i.next("Access"), i.next("Refresh")
	i.mu.Lock()
	held := i.holding
	defer func() {
		i.mu.Unlock()
		if held != nil {
			<-held
		}
	}()
	f := r.PostForm
	if id, secret, ok := r.BasicAuth(); ok {
		f.Set("client_id", id)
		f.Set("client_secret", secret)
	}
	i.last = f
	asked := i.codes[f.Get("code")]
	sum := sha256.Sum256([]byte(f.Get("code_verifier")))
	if i.spent[f.Get("refresh_token")] { // A refresh token that is used twice may be stolen, so all tokens of the sign-in become invalid.
		clear(i.tokens)
		i.refresh = "gone"
	}
	renews := f.Get("grant_type") == "refresh_token" && f.Get("refresh_token") == i.refresh && f.Get("resource") == i.URL+"/mcp"
	if renews {
		i.renewed++
		i.spent[i.refresh] = true
	}
	good := f.Get("client_secret") == i.secret && renews ||
		f.Get("client_secret") == i.secret &&
			asked != nil && asked.Get("code_challenge") == base64.RawURLEncoding.EncodeToString(sum[:]) && f.Get("redirect_uri") == asked.Get("redirect_uri") &&
			f.Get("client_id") == asked.Get("client_id") && f.Get("resource") == i.URL+"/mcp"
	delete(i.codes, f.Get("code"))
	if !good {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant"}`)
		return
	}
	if answer, ok := i.given.(http.HandlerFunc); ok {
		answer(w, r)
		return
	}
	if i.given != nil {
		i.say(w, i.given)
		return
	}
	i.tokens[access], i.refresh = true, refresh
	i.say(w, map[string]any{"access_token": access, "token_type": "Bearer", "refresh_token": refresh, "expires_in": i.expires})
}

// Visit opens a sign-in page as a person does, and returns the address to which the browser is redirected.
func (i *Issuer) Visit(page string) (string, error) {
	u, err := url.Parse(page)
	if err != nil {
		return "", err
	}
	q := u.Query()
	code := i.next("code")
	i.mu.Lock()
	defer i.mu.Unlock()
	if !strings.HasPrefix(page, i.URL+"/authorize?") || !i.clients[q.Get("client_id")] || q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" || q.Get("resource") != i.URL+"/mcp" {
		return "", fmt.Errorf("the page is %s", page)
	}
	i.codes[code] = q
	back := url.Values{"code": {code}, "state": {q.Get("state")}}
	if !i.plain {
		back.Set("iss", i.URL)
	}
	return q.Get("redirect_uri") + "?" + back.Encode(), nil
}
