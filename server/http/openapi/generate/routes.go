package main

import (
	"regexp"
	"strings"
)

const routesTag = "Routes"

// A route is a route that is not a method of the API.
type route struct {
	method, path string
	summary      string
	query        []string          // names of optional parameters
	request      string            // media type of the body; empty means none
	responses    map[string]string // media type of the body by status; empty means none
	public       bool              // needs no credential
}

// ownRoutes are the routes of package httpserver. A test compares them with its source.
var ownRoutes = []route{
	{method: "get", path: "/healthz", summary: "Whether the process serves", responses: map[string]string{"200": "text/plain"}, public: true},
	{method: "get", path: "/readyz", summary: "Whether the daemon accepts requests", responses: map[string]string{"200": "text/plain", "503": "text/plain"}, public: true},
	{method: "get", path: "/metrics", summary: "The metrics in the format of Prometheus; needs the role admin", responses: map[string]string{"200": "text/plain"}},
	{method: "get", path: "/openapi.json", summary: "This document", responses: map[string]string{"200": "application/json"}, public: true},
	{
		method: "get", path: "/v1/watch", summary: "Follows a call, turn, run, thread or batch, or the inbox, by server-sent events; each event has a Frame as its data",
		query: []string{"call", "turn", "run", "thread", "batch", "inbox", "after", "cursor", "form"}, responses: map[string]string{"200": "text/event-stream", "204": ""},
	},
	{method: "get", path: "/v1/calls/{call}/artifacts/{name}", summary: "An output or artifact of a call as a file", responses: map[string]string{"200": "application/octet-stream", "206": "application/octet-stream"}},
	{method: "get", path: "/v1/ui/runs/{run}/stream", summary: "A run as a UI message stream of the AI SDK", responses: map[string]string{"200": "text/event-stream", "204": ""}},
	{method: "get", path: "/v1/ui/threads/{thread}/stream", summary: "The newest run of a thread as a UI message stream of the AI SDK", responses: map[string]string{"200": "text/event-stream", "204": ""}},
	{method: "post", path: "/v1/ui/decisions", summary: "Decides by approval responses of the AI SDK, as the signed-in person", request: "application/json", responses: map[string]string{"200": "application/json"}},
	{method: "get", path: "/v1/agui/runs/{run}/stream", summary: "A run as events of AG-UI", query: []string{"wait_for_decision"}, responses: map[string]string{"200": "text/event-stream", "204": ""}},
	{method: "get", path: "/v1/agui/threads/{thread}/stream", summary: "The newest run of a thread as events of AG-UI", query: []string{"wait_for_decision"}, responses: map[string]string{"200": "text/event-stream", "204": ""}},
	{method: "post", path: "/v1/agui/decisions", summary: "Decides by the member resume of an AG-UI request, as the signed-in person", request: "application/json", responses: map[string]string{"200": "application/json"}},
	{method: "get", path: "/login", summary: "The page of a login link", responses: map[string]string{"200": "text/html"}, public: true},
	{method: "get", path: "/login/{file}", summary: "The script and style of the login page", responses: map[string]string{"200": "*/*"}, public: true},
	{method: "post", path: "/login", summary: "Exchanges the secret of a login link for the cookie of a session", request: "application/json", responses: map[string]string{"204": ""}, public: true},
	{method: "post", path: "/logout", summary: "Ends the session of the cookie", responses: map[string]string{"204": ""}},
	{method: "post", path: "/mcp", summary: "MCP over streamable HTTP", request: "application/json", responses: map[string]string{"200": "application/json", "202": ""}},
	{method: "get", path: "/.well-known/oauth-protected-resource", summary: "Where MCP clients get tokens (RFC 9728)", responses: map[string]string{"200": "application/json"}, public: true},
	{method: "get", path: "/.well-known/oauth-protected-resource/mcp", summary: "Where MCP clients get tokens (RFC 9728)", responses: map[string]string{"200": "application/json"}, public: true},
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// routes adds the routes of ownRoutes.
func (b *builder) routes() {
	for _, r := range ownRoutes {
		path, ok := b.paths[r.path].(object)
		if !ok {
			path = object{}
			b.paths[r.path] = path
		}
		path[r.method] = r.operation()
	}
}

func (r *route) operation() object {
	parameters := []object{}
	for _, m := range pathParameter.FindAllStringSubmatch(r.path, -1) {
		parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, name := range r.query {
		parameters = append(parameters, object{"name": name, "in": "query", "schema": object{"type": "string"}})
	}
	responses := object{"default": errorResponse}
	for status, media := range r.responses {
		response := object{"description": "Success"}
		if status >= "300" {
			response["description"] = "Failure"
		}
		if media != "" {
			response["content"] = object{media: object{}}
		}
		responses[status] = response
	}
	id := strings.Trim(regexp.MustCompile(`\W+`).ReplaceAllString(r.path, "_"), "_")
	op := object{"operationId": r.method + "_" + id, "tags": []string{routesTag}, "summary": r.summary, "parameters": parameters, "responses": responses}
	if r.request != "" {
		op["requestBody"] = object{"required": true, "content": object{r.request: object{}}}
	}
	if r.public {
		op["security"] = []object{}
	}
	return op
}
