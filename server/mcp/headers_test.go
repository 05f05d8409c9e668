package mcpserver_test

import (
	"net/http"
	"strings"
	"testing"

	mcpserver "github.com/toold-dev/toold/server/mcp"
)

// TestParameterHeaders checks that the headers which repeat parameters must have the values of the body.
func TestParameterHeaders(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	tests := []struct {
		name, arguments string
		headers         []string
		refused         string // part of the error
	}{
		{"none", `{}`, nil, ""},
		{"null", `{"region":null}`, nil, ""},
		{"text", `{"region":"eu"}`, []string{"Mcp-Param-Region", "eu"}, ""},
		{"another text", `{"region":"eu"}`, []string{"Mcp-Param-Region", "us"}, `Mcp-Param-Region is "us"`},
		{"missing", `{"region":"eu"}`, nil, "parameter region"},
		{"without a parameter", `{}`, []string{"Mcp-Param-Region", "eu"}, "has no parameter region"},
		{"base64", `{"region":"ü "}`, []string{"Mcp-Param-Region", "=?base64?w7wg?="}, ""},
		{"another base64", `{"region":"ü"}`, []string{"Mcp-Param-Region", "=?base64?w7wg?="}, "want the value"},
		{"broken base64", `{"region":"Hello"}`, []string{"Mcp-Param-Region", "=?base64?SGVsbG8?="}, "not valid base64"},
		{"half a base64", `{"region":"=?base64?x"}`, []string{"Mcp-Param-Region", "=?base64?x"}, ""},
		{"inner integer", `{"to":{"zone":1e0}}`, []string{"Mcp-Param-Zone", "1"}, ""},
		{"another inner integer", `{"to":{"zone":1}}`, []string{"Mcp-Param-Zone", "2"}, "parameter to.zone"},
		{"integer without an object", `{}`, []string{"Mcp-Param-Zone", "2"}, "no parameter to.zone"},
		{"integer beyond the safe ones", `{"to":{"zone":9007199254740993}}`, []string{"Mcp-Param-Zone", "9007199254740992"}, "parameter to.zone"},
		{"boolean", `{"fast":true}`, []string{"Mcp-Param-Fast", "true"}, ""},
		{"another boolean", `{"fast":true}`, []string{"Mcp-Param-Fast", "1"}, "parameter fast"},
		{"list", `{"list":[1]}`, []string{"Mcp-Param-List", "x"}, ""}, // the type cannot be in a header
		{"repeated", `{"region":"eu"}`, []string{"Mcp-Param-Region", "eu", "Mcp-Param-Region", "us"}, "Mcp-Param-Region is repeated"},
		{"a name that differs in case", `{"region":"eu"},"argument\u017f":{"region":"us"}`, []string{"Mcp-Param-Region", "us"}, `Mcp-Param-Region is "us"`},
	}
	for _, tt := range tests {
		r := post(t, url, "alice", without, "tools/call", "route", `{"name":"route","arguments":`+tt.arguments+`}`, tt.headers...)
		if tt.refused == "" {
			if r.status != http.StatusOK || r.Result.ResultType != "complete" {
				t.Errorf("%s: the answer is %+v", tt.name, r)
			}
			continue
		}
		if r.status != http.StatusBadRequest || r.Error.Code != -32020 || !strings.Contains(r.Error.Message, tt.refused) {
			t.Errorf("%s: the answer is %+v; want 400, -32020 and %q", tt.name, r, tt.refused)
		}
	}
	list := post(t, url, "alice", without, "tools/list", "", `{}`)
	if !strings.Contains(string(list.Result.Tools), `"x-mcp-header":"Region"`) {
		t.Errorf("the list of tools does not name the headers: %s", list.Result.Tools)
	}
}
