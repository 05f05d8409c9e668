package openapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/http/jsonform"
	"github.com/toold-dev/toold/server/http/openapi"
)

// served returns the document as a client gets it.
func served(t *testing.T, encoding string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/openapi.json", nil)
	r.Header.Set("Accept-Encoding", encoding)
	w := httptest.NewRecorder()
	openapi.Serve(w, r)
	if got := w.Header().Get("Content-Encoding"); got != encoding {
		t.Fatalf("the encoding is %q, want %q", got, encoding)
	}
	return w.Body.String()
}

func document(t *testing.T) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(served(t, "")), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestCommitted checks that openapi.json and the compressed file that the daemon contains are equal.
func TestCommitted(t *testing.T) {
	committed, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if served(t, "") != string(committed) {
		t.Error("openapi.json and openapi.json.gz differ; run make generate")
	}
	if size := len(served(t, "gzip")); size > 100<<10 {
		t.Errorf("the compressed document has %d bytes", size)
	}
}

// TestValid checks the document against the schema of the OpenAPI Initiative, and the schemas in the document against JSON Schema. It also
// checks all references.
func TestValid(t *testing.T) {
	doc := document(t)
	schema, err := jsonschema.Compile("testdata/openapi-3.1-schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Errorf("%#v", err)
	}
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	c := compiler(t)
	for name := range schemas {
		if _, err := c.Compile(schemaOf(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, m := range regexp.MustCompile(`"\$ref": "([^"]*)"`).FindAllStringSubmatch(served(t, ""), -1) {
		name, isSchema := strings.CutPrefix(m[1], "#/components/schemas/")
		if m[1] != "#/components/responses/Error" && (!isSchema || schemas[name] == nil) {
			t.Errorf("the reference %s leads nowhere", m[1])
		}
	}
}

// compiler returns a compiler to which the document was added.
func compiler(t *testing.T) *jsonschema.Compiler {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.AssertFormat = true
	if err := c.AddResource("openapi.json", strings.NewReader(served(t, ""))); err != nil {
		t.Fatal(err)
	}
	return c
}

func schemaOf(message string) string { return "openapi.json#/components/schemas/" + message }

// TestComplete checks that the document has each method that the daemon serves and each route, and nothing else.
func TestComplete(t *testing.T) {
	want := map[string]bool{}
	for name := range access.Table() {
		if strings.HasPrefix(name, "/toold.v1.") {
			want["post "+name] = true
		}
	}
	route := regexp.MustCompile(`mux\.Handle(?:Func)?\("(?:([A-Z]+) )?(/[^"]*)"`)
	files, err := filepath.Glob("../*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range route.FindAllStringSubmatch(string(text), -1) {
			method, path := strings.ToLower(m[1]), strings.ReplaceAll(m[2], "...}", "}")
			if method == "" {
				method = "post"
			}
			if path == "/" || path == "/{$}" || path == "/assets/" { // the fallback of a standby, and the files of the console
				continue
			}
			if strings.HasSuffix(path, "/") {
				path += "{file}"
			}
			want[method+" "+path] = true
		}
	}
	if len(want) < 40 {
		t.Fatalf("only %d routes", len(want))
	}
	for path, item := range document(t)["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			if !want[method+" "+path] {
				t.Errorf("%s %s is not served", method, path)
			}
			delete(want, method+" "+path)
		}
	}
	for missing := range want {
		t.Errorf("%s is not in the document; add it to ownRoutes in generate/routes.go, or run make generate", missing)
	}
}

// TestMessages checks that a record fits its schema in both forms.
func TestMessages(t *testing.T) {
	schema, err := compiler(t).Compile(schemaOf("CallToolResponse"))
	if err != nil {
		t.Fatal(err)
	}
	res := &tooldv1.CallToolResponse{Cursor: "c1.1.1", Call: &tooldv1.Call{
		CallId: "c", Status: tooldv1.CallStatus_CALL_STATUS_FAILED, LastSequence: 7, CreatedAt: timestamppb.Now(), RequestedArguments: `{"a":[1]}`,
		Run:    &tooldv1.Run{Labels: map[string]string{"a": "b"}},
		Result: &tooldv1.ToolResult{Duration: durationpb.New(1), Data: `7`, Content: []*tooldv1.Content{{Type: tooldv1.ContentType_CONTENT_TYPE_IMAGE, Data: []byte{1}}}},
	}}
	for _, form := range []jsonform.Form{jsonform.Plain(), jsonform.Readable()} {
		text, err := form.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %#v", text, err)
		}
		v["call"].(map[string]any)["status"] = "FAILED"
		if schema.Validate(v) == nil {
			t.Error("the schema accepts an unknown enum value")
		}
	}
}
