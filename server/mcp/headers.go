package mcpserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// maxSafe is the largest integer that every JSON implementation represents exactly. The protocol permits no larger integer in a header.
const maxSafe = 1<<53 - 1

// withHeaders refuses requests whose headers differ from their body, so that proxies can rely on the headers. The SDK already checks the
// headers Mcp-Method and Mcp-Name for its own methods. withHeaders checks Mcp-Name for the methods of tasks, and the Mcp-Param headers of a
// tool.
func (s *Server) withHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		msg, _ := jsonrpc.DecodeMessage(readBody(w, r))
		call, ok := msg.(*jsonrpc.Request)
		if ok && call.Method == r.Header.Get("Mcp-Method") {
			if err := s.checkHeaders(r, call); err != nil {
				refuseHeaders(w, call.ID, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) checkHeaders(r *http.Request, call *jsonrpc.Request) error {
	for header, values := range r.Header {
		if strings.HasPrefix(header, "Mcp-") && len(values) > 1 { // A proxy may read a different value than the daemon.
			return fmt.Errorf("the header %s is repeated; want it once", clean(header))
		}
	}
	var params, arguments map[string]json.RawMessage // A struct would also accept names in another case, which the SDK refuses.
	if err := json.Unmarshal(call.Params, &params); err != nil {
		return nil //nolint:nilerr // the method reports what is wrong
	}
	name := r.Header.Get("Mcp-Name")
	var task string
	_ = json.Unmarshal(params["taskId"], &task) // The method reports a value that is missing or is not a text.
	switch {
	case strings.HasPrefix(call.Method, "tasks/") && name != task:
		return fmt.Errorf("the header Mcp-Name is %q; want the taskId of the request", clean(name))
	case call.Method == "tools/call" && (params["arguments"] == nil || json.Unmarshal(params["arguments"], &arguments) == nil):
		got, err := s.tools.GetTool(r.Context(), &tooldv1.GetToolRequest{Tool: name})
		if err != nil {
			return nil //nolint:nilerr // the call has the same error
		}
		var schema headerSchema
		if json.Unmarshal([]byte(got.GetTool().GetParameters()), &schema) == nil {
			return schema.check(r.Header, arguments, "")
		}
	}
	return nil
}

// refuseHeaders answers a request whose headers differ from its body.
func refuseHeaders(w http.ResponseWriter, id jsonrpc.ID, cause error) {
	text, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: cause.Error()}})
	if err != nil {
		http.Error(w, cause.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(text) // Ignore the error: it means that the client has disconnected.
}

// A headerSchema is the part of a tool's schema that says which parameters clients repeat in headers.
type headerSchema struct {
	Type       any                     `json:"type"`
	Header     any                     `json:"x-mcp-header"`
	Properties map[string]headerSchema `json:"properties"`
}

// check compares the headers with the arguments of an object. at is the path of the object, which is empty or ends with a point.
func (s headerSchema) check(h http.Header, arguments map[string]json.RawMessage, at string) error {
	for key, p := range s.Properties {
		if name, ok := p.Header.(string); ok && name != "" {
			if err := p.compare(h.Get("Mcp-Param-"+name), arguments[key]); err != nil {
				return fmt.Errorf("the header Mcp-Param-%s %w %s%s", clean(name), err, at, clean(key))
			}
		}
		var inner map[string]json.RawMessage
		if len(p.Properties) > 0 && (arguments[key] == nil || json.Unmarshal(arguments[key], &inner) == nil) {
			if err := p.check(h, inner, at+clean(key)+"."); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare compares the value of a header with a parameter. If the type of the parameter cannot be in a header, compare returns nil, because
// clients do not offer such a tool. The caller puts the name of the parameter after the text of the error.
func (s headerSchema) compare(header string, argument json.RawMessage) error {
	switch {
	case s.Type != "string" && s.Type != "integer" && s.Type != "boolean":
		return nil
	case argument == nil || string(argument) == "null":
		if header != "" {
			return fmt.Errorf("is %q, but the request has no parameter", clean(header))
		}
		return nil
	}
	if encoded, ok := strings.CutPrefix(header, "=?base64?"); ok && strings.HasSuffix(encoded, "?=") {
		text, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(encoded, "?="))
		if err != nil {
			return fmt.Errorf("is not valid base64; want the parameter")
		}
		header = string(text)
	}
	if !sameValue(header, argument) {
		return fmt.Errorf("is %q; want the value of the parameter", clean(header))
	}
	return nil
}

// sameValue reports whether the text of a header is the value of a string, a boolean or an integer. 1, 1.0 and 1e0 are the same integer.
func sameValue(header string, argument json.RawMessage) bool {
	var value any
	if json.Unmarshal(argument, &value) != nil {
		return false
	}
	switch v := value.(type) {
	case string:
		return header == v
	case bool:
		return header == strconv.FormatBool(v)
	case float64:
		n, err := strconv.ParseFloat(header, 64)
		return err == nil && n == v && -maxSafe <= n && n <= maxSafe && n == float64(int64(n))
	}
	return false
}
