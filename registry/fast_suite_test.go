package registry_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/registry"
)

// library compiles a schema as it is written with the library and nothing else.
func library(t interface{ Fatalf(string, ...any) }, schema string) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.AssertFormat = true
	c.LoadURL = func(string) (io.ReadCloser, error) { return nil, os.ErrNotExist }
	if err := c.AddResource("https://schema.invalid/plain", strings.NewReader(schema)); err != nil {
		t.Fatalf("the library refuses %s: %v", schema, err)
	}
	s, err := c.Compile("https://schema.invalid/plain")
	if err != nil {
		t.Fatalf("the library refuses %s: %v", schema, err)
	}
	return s
}

type suiteGroup struct {
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Tests       []struct {
		Description string          `json:"description"`
		Data        json.RawMessage `json:"data"`
		Valid       bool            `json:"valid"`
	} `json:"tests"`
}

// suiteFolder is where the official test suite lies, which comes with a module that the daemon is built from.
func suiteFolder(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/jsonschema-go").Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		t.Fatalf("the module with the test suite is not there: %v; go mod download fetches it", err)
	}
	return filepath.Join(dir, "jsonschema", "testdata")
}

func suiteGroups(t *testing.T, folder string) map[string][]suiteGroup {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) < 35 {
		t.Fatalf("%d files in %s (%v), want the test suite", len(files), folder, err)
	}
	groups := map[string][]suiteGroup{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var g []suiteGroup
		if err := json.Unmarshal(text, &g); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		groups[filepath.Base(file)] = g
	}
	return groups
}

// withDraft gives a schema another draft; true and false have none.
func withDraft(schema json.RawMessage, draft string) string {
	var m map[string]json.RawMessage
	if json.Unmarshal(schema, &m) != nil {
		return string(schema)
	}
	m["$schema"], _ = json.Marshal(draft)
	var b bytes.Buffer
	b.WriteString("{")
	for i, name := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b.WriteString(",")
		}
		quoted, _ := json.Marshal(name)
		b.Write(append(append(quoted, ':'), m[name]...))
	}
	b.WriteString("}")
	return b.String()
}

// The official test suite decides: whatever the fast check takes, the library takes; and the daemon's answer is the
// library's. The cases of each draft are also read as those of the others, which the suite does not bring: the library
// is the judge, not the suite.
func TestFastCheckAgainstTheSuite(t *testing.T) {
	drafts := []string{
		"https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema",
		"http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-04/schema#",
	}
	folder := suiteFolder(t)
	for _, cases := range []string{"draft2020-12", "draft7"} {
		groups := suiteGroups(t, filepath.Join(folder, cases))
		for _, draft := range drafts {
			t.Run(cases+" as "+draft, func(t *testing.T) { suiteCases(t, groups, draft) })
		}
	}
}

func suiteCases(t *testing.T, groups map[string][]suiteGroup, draft string) {
	var schemas, refused, fast, cases, valid, taken, differ int
	for _, file := range slices.Sorted(maps.Keys(groups)) {
		for _, g := range groups[file] {
			schemas++
			schema := withDraft(g.Schema, draft)
			s, err := registry.CompileSchema(json.RawMessage(schema))
			if err != nil {
				refused++
				continue
			}
			if s.HasFast() {
				fast++
			}
			judge := library(t, schema)
			for _, c := range g.Tests {
				v, err := call.ParseJSON(string(c.Data), 0)
				if err != nil {
					continue // numbers and texts that no call can bring
				}
				cases++
				ok := judge.Validate(v) == nil
				if ok {
					valid++
				}
				if ok != c.Valid {
					differ++
				}
				if surely := s.Surely(v); surely {
					taken++
					if !ok {
						t.Errorf("%s: %s: %s: the fast check takes what the library refuses", file, g.Description, c.Description)
					}
				}
				if got := s.Validate(v) == nil; got != ok {
					t.Errorf("%s: %s: %s: valid %t, want %t", file, g.Description, c.Description, got, ok)
				}
			}
		}
	}
	t.Logf("%d schemas: %d refused, %d with a fast check; %d cases, %d valid, %d taken by the fast check; the library differs from the suite in %d",
		schemas, refused, fast, cases, valid, taken, differ)
	if taken < 150 {
		t.Errorf("only %d cases are taken", taken)
	}
}
