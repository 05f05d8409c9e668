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
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/registry"
)

var asserting = registry.New(registry.Config{AssertFormats: true})

func compileAsserting(t testing.TB, schema string) *registry.Schema {
	t.Helper()
	s, err := asserting.CompileSchema(json.RawMessage(schema))
	if err != nil {
		t.Fatalf("CompileSchema(%.200s) = %v", schema, err)
	}
	return s
}

// library compiles an unprepared schema with the library and the formats of toold only.
func library(t interface{ Fatalf(string, ...any) }, schema string, assertFormats bool) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.AssertFormat, c.Formats = assertFormats, registry.Formats()
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

// moduleFolder returns the directory of a Go module. go.sum pins the checksum of the module.
func moduleFolder(t *testing.T, dir, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = dir
	out, err := cmd.Output()
	var found struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	if err != nil || found.Dir == "" {
		t.Fatalf("the module with the test suite is not there: %v; it has to be downloaded once: %s", err, out)
	}
	return found.Dir
}

// suiteGroups reads the official test suite of a draft from two Go modules. One module has the whole suite. The other has newer files of
// two drafts, without the optional ones. Each draft also gets the cases of this repository.
func suiteGroups(t *testing.T, draft string) map[string][]suiteGroup {
	t.Helper()
	whole := filepath.Join(moduleFolder(t, "../build/suite", "github.com/kaptinlin/jsonschema"), "testdata", "JSON-Schema-Test-Suite", "tests", draft)
	newer := filepath.Join(moduleFolder(t, "..", "github.com/google/jsonschema-go"), "jsonschema", "testdata", draft)
	groups := map[string][]suiteGroup{}
	for _, below := range []string{"", "optional", "optional/format"} {
		readGroups(t, groups, below, filepath.Join(whole, below))
	}
	if len(groups) < 60 {
		t.Fatalf("%d files in %s, want the test suite", len(groups), whole)
	}
	readGroups(t, groups, "", newer)
	readGroups(t, groups, "own", "testdata/suite/own")
	return groups
}

func readGroups(t *testing.T, groups map[string][]suiteGroup, name, folder string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		t.Fatal(err)
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
		groups[path.Join(name, filepath.Base(file))] = g
	}
}

// withDraft changes the draft of a schema. The schemas true and false have none.
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

var suiteDrafts = map[string]string{
	"draft7": "http://json-schema.org/draft-07/schema#", "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
	"draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}

// TestOfficialSuite runs the official test suite of each draft. testdata/suite lists the schemas that the daemon refuses, and the cases in
// which it differs from the suite. A change of either fails the test. docs/reference/schemas.md lists them by class. The library must
// accept every value that the fast check accepts.
func TestOfficialSuite(t *testing.T) {
	classes := map[string]map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(suiteDrafts)) {
		t.Run(name, func(t *testing.T) {
			listed := suiteCases(t, suiteGroups(t, name), suiteDrafts[name])
			for _, line := range listed {
				class := disagreement(line)
				if class == "" {
					t.Errorf("no class: %s", line)
				}
				if classes[class] == nil {
					classes[class] = map[string]int{}
				}
				classes[class][name]++
			}
			golden(t, filepath.Join("testdata", "suite", name+".txt"), strings.Join(listed, "\n")+"\n")
		})
	}
	table := "| kind of difference | draft-07 | 2019-09 | 2020-12 |\n|---|---|---|---|\n"
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		n := classes[class]
		table += fmt.Sprintf("| %s | %d | %d | %d |\n", class, n["draft7"], n["draft2019-09"], n["draft2020-12"])
	}
	page, err := os.ReadFile("../docs/reference/schemas.md")
	if err != nil || !strings.Contains(string(page), table) {
		t.Errorf("docs/reference/schemas.md lacks this table (%v):\n%s", err, table)
	}
}

// disagreement returns the class of a line from suiteCases.
func disagreement(line string) string {
	file, _, _ := strings.Cut(line, ": ")
	notTaken := strings.HasSuffix(line, "schema not taken")
	switch {
	case strings.HasPrefix(file, "optional/format/idn-"):
		return "invalid internationalised names and addresses are accepted"
	case file == "vocabulary.json":
		return "a custom vocabulary is not known"
	case file == "optional/ecmascript-regex.json" && notTaken:
		return "patterns beyond RE2 are refused"
	case file == "optional/format-assertion.json":
		return "a custom meta-schema is not read"
	case notTaken:
		return "a schema that refers to other documents, or has a subschema with `$id`, is refused"
	}
	return ""
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the list of differences is another one; -update writes it (-want +got):\n%s", diff)
	}
}

var update = flag.Bool("update", false, "write the golden files")

// The cases of each draft also run as cases of the other drafts. The suite does not cover these, so the library is the reference.
func TestOfficialSuiteAsOtherDrafts(t *testing.T) {
	for _, cases := range []string{"draft2020-12", "draft7"} {
		groups := suiteGroups(t, cases)
		for _, draft := range []string{
			"https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema",
			"http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-04/schema#",
		} {
			t.Run(cases+" as "+draft, func(t *testing.T) { suiteCases(t, groups, draft) })
		}
	}
}

// suiteCases returns the lines for testdata/suite: refused schemas, and cases in which the daemon differs from the suite. The optional
// cases of formats run with asserted formats.
func suiteCases(t *testing.T, groups map[string][]suiteGroup, draft string) (listed []string) {
	var schemas, refused, fast, cases, valid, taken, differ int
	for _, file := range slices.Sorted(maps.Keys(groups)) {
		for _, g := range groups[file] {
			schemas++
			schema := withDraft(g.Schema, draft)
			assert := strings.HasPrefix(file, "optional/format/") || strings.HasPrefix(file, "own/format")
			s, err := registry.New(registry.Config{AssertFormats: assert}).CompileSchema(json.RawMessage(schema))
			if err != nil {
				refused++
				listed = append(listed, fmt.Sprintf("%s: %s: schema not taken", file, g.Description))
				continue
			}
			if s.HasFast() {
				fast++
			}
			for _, c := range g.Tests {
				v, err := call.ParseJSON(string(c.Data), 0)
				if err != nil {
					continue // No call can contain these numbers and texts.
				}
				cases++
				ok := s.ValidateByLibrary(v) == nil
				if ok {
					valid++
				}
				if ok != c.Valid {
					differ++
					listed = append(listed, fmt.Sprintf("%s: %s: %s: %t, the suite says %t", file, g.Description, c.Description, ok, c.Valid))
				}
				if s.Surely(v) {
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
	t.Logf("%d schemas: %d refused, %d with a fast check; %d cases, %d valid, %d taken by the fast check; the daemon differs from the suite in %d",
		schemas, refused, fast, cases, valid, taken, differ)
	if taken < 150 {
		t.Errorf("only %d cases are taken", taken)
	}
	return listed
}
