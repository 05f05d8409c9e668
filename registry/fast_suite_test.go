package registry_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// suiteFolder is where the official test suite lies: a module carries it whole, and its checksum is pinned.
func suiteFolder(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "github.com/kaptinlin/jsonschema")
	cmd.Dir = "../build/suite"
	out, err := cmd.Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil || module.Dir == "" {
		t.Fatalf("the module with the test suite is not there: %v; it has to be downloaded once: %s", err, out)
	}
	return filepath.Join(module.Dir, "testdata", "JSON-Schema-Test-Suite", "tests")
}

func suiteGroups(t *testing.T, folder string) map[string][]suiteGroup {
	t.Helper()
	groups := map[string][]suiteGroup{}
	var files []string
	for _, below := range []string{"", "optional", "optional/format"} {
		found, err := filepath.Glob(filepath.Join(folder, below, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 60 {
		t.Fatalf("%d files in %s, want the test suite", len(files), folder)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var g []suiteGroup
		if err := json.Unmarshal(text, &g); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			t.Fatal(err)
		}
		groups[filepath.ToSlash(name)] = g
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

// The official test suite, draft by draft: whatever the fast check takes, the library takes; the daemon's answer is the
// library's on every case. Where the library differs from the suite, and which schemas the daemon does not take, is
// listed in testdata/suite, so that a change of either is seen.
func TestOfficialSuite(t *testing.T) {
	folder := suiteFolder(t)
	for name, draft := range map[string]string{
		"draft7": "http://json-schema.org/draft-07/schema#", "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
		"draft2020-12": "https://json-schema.org/draft/2020-12/schema",
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(suiteCases(t, suiteGroups(t, filepath.Join(folder, name)), draft), "\n") + "\n"
			golden := filepath.Join("testdata", "suite", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("the list of differences is another one; -update writes it (-want +got):\n%s", diff)
			}
		})
	}
}

var update = flag.Bool("update", false, "write the golden files")

// The cases of each draft are also read as those of the others, which the suite does not bring: the library is the judge.
func TestOfficialSuiteAsOtherDrafts(t *testing.T) {
	folder := suiteFolder(t)
	for _, cases := range []string{"draft2020-12", "draft7"} {
		groups := suiteGroups(t, filepath.Join(folder, cases))
		for _, draft := range []string{
			"https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema",
			"http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-04/schema#",
		} {
			t.Run(cases+" as "+draft, func(t *testing.T) { suiteCases(t, groups, draft) })
		}
	}
}

// suiteCases returns what is listed: schemas that are not taken, and cases in which the library differs from the suite.
func suiteCases(t *testing.T, groups map[string][]suiteGroup, draft string) (listed []string) {
	var schemas, refused, fast, cases, valid, taken, differ int
	for _, file := range slices.Sorted(maps.Keys(groups)) {
		for _, g := range groups[file] {
			schemas++
			schema := withDraft(g.Schema, draft)
			s, err := registry.CompileSchema(json.RawMessage(schema))
			if err != nil {
				refused++
				listed = append(listed, fmt.Sprintf("%s: %s: schema not taken", file, g.Description))
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
					listed = append(listed, fmt.Sprintf("%s: %s: %s: %t, the suite says %t", file, g.Description, c.Description, ok, c.Valid))
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
	return listed
}
