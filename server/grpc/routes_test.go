package grpcserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
)

// mayUse returns which roles may use each route that is not a method of the API. The role "" stands for any client, with or without a token.
func mayUse() map[string][]string {
	see, anyone := []string{"caller", "delegate", "approver", "viewer", "operator"}, []string{""}
	decide := []string{"approver", "operator"}
	return map[string][]string{
		"get /v1/watch":                see,
		"get /v1/ui/runs/{run}/stream": see, "get /v1/ui/threads/{thread}/stream": see, "post /v1/ui/decisions": decide,
		"get /v1/agui/runs/{run}/stream": see, "get /v1/agui/threads/{thread}/stream": see, "post /v1/agui/decisions": decide,
		"get /v1/calls/{call}/artifacts/{name}": see,
		"get /metrics":                          {"admin"},
		"get /healthz":                          anyone, "get /readyz": anyone, "get /openapi.json": anyone,
		"get /login": anyone, "get /login/{file}": anyone, "post /login": anyone, "post /logout": anyone,
		// Tests of server/mcp check these routes.
		"post /mcp": nil, "get /.well-known/oauth-protected-resource": nil, "get /.well-known/oauth-protected-resource/mcp": nil,
	}
}

// TestT57EveryRoute (T57) requests every HTTP route that is not a method of the API, with each role and without a token. It takes the
// routes from the OpenAPI document.
func TestT57EveryRoute(t *testing.T) {
	var tokens []access.Token
	for _, role := range everyRole {
		tokens = append(tokens, access.Token{Hash: hashOf(tokenOf("only-" + role)), Principal: tool.Principal{Namespace: "default", Subject: "only-" + role, Roles: []string{role}}})
	}
	w := newWorld(t, options{tokens: tokens})
	base, client := w.overHTTP()
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	resp, err := client.Get(base + "/openapi.json")
	must(t, err)
	must(t, json.NewDecoder(resp.Body).Decode(&document))
	resp.Body.Close()
	table := mayUse()
	for path, methods := range document.Paths {
		for method := range methods {
			name := method + " " + path
			if strings.HasPrefix(path, "/toold.") || method == "parameters" {
				continue
			}
			roles, known := table[name]
			if !known {
				t.Errorf("%s is served and in no table", name)
			}
			delete(table, name)
			if roles == nil {
				continue
			}
			for _, role := range append([]string{""}, everyRole...) {
				t.Run(name+" as "+role, func(t *testing.T) {
					t.Parallel()
					checkRoute(t, client, method, base+filled(path), role, slices.Contains(roles, role) || slices.Contains(roles, ""))
				})
			}
		}
	}
	for name := range table {
		t.Errorf("%s is in the table and not in the document", name)
	}
}

// filled returns a path of a route, with a query that the route needs.
func filled(path string) string {
	path = strings.NewReplacer("{run}", "r", "{thread}", "t", "{call}", "c", "{name}", "stdout", "{file}", "login.js").Replace(path)
	if path == "/v1/watch" {
		path += "?run=r"
	}
	return path
}

func checkRoute(t *testing.T, client *http.Client, method, url, role string, want bool) {
	ctx, cancel := context.WithTimeout(within(t), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, strings.ToUpper(method), url, strings.NewReader("{}"))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	if role != "" {
		req.Header.Set("Authorization", "Bearer "+tokenOf("only-"+role))
	}
	resp, err := client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	refused := resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
	text := ""
	if refused {
		b, err := io.ReadAll(resp.Body)
		must(t, err)
		text, refused = string(b), !strings.Contains(string(b), "SESSION_NOT_ALLOWED") // The server refuses every login without a browser.
	}
	if refused == want {
		t.Errorf("%s %s, want allowed %t", resp.Status, text, want)
	}
}
