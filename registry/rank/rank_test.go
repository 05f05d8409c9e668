package rank_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/registry/rank"
	"github.com/toold-dev/toold/tool"
)

// real reads the 500 definitions of testdata.
func real(t testing.TB) []*tool.Descriptor {
	t.Helper()
	f, err := os.Open("testdata/tools.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all []*tool.Descriptor
	for dec := json.NewDecoder(z); dec.More(); {
		d := &tool.Descriptor{}
		if err := dec.Decode(d); err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

func documents(tools []*tool.Descriptor) []*rank.Document {
	docs := make([]*rank.Document, len(tools))
	for i, d := range tools {
		docs[i] = rank.NewDocument(d)
	}
	return docs
}

// TestRealQueries checks that the right tool is among the first 8 of 500 real definitions. This must hold for at least 90 of 100 queries,
// and for 45 of 50 queries that were not used for tuning. testdata/README.md names the sources of the definitions and queries.
func TestRealQueries(t *testing.T) {
	t.Parallel()
	tools := real(t)
	docs := documents(tools)
	if len(docs) != 500 {
		t.Fatalf("%d definitions", len(docs))
	}
	for file, want := range map[string]struct{ asked, found int }{"queries.txt": {100, 90}, "held-out.txt": {50, 45}} {
		asked, found := ask(t, tools, docs, "testdata/"+file)
		t.Logf("%s: the right tool is among the first 8 for %d of %d queries", file, found, asked)
		if asked != want.asked || found < want.found {
			t.Errorf("%s: found %d of %d, want at least %d of %d", file, found, asked, want.found, want.asked)
		}
	}
}

// ask returns the number of queries in a file, and the number of queries for which the first 8 tools include an expected id.
func ask(t *testing.T, tools []*tool.Descriptor, docs []*rank.Document, file string) (asked, found int) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		query, ids, ok := strings.Cut(lines.Text(), " | ")
		if !ok {
			continue
		}
		asked++
		got := search(query, docs, tools, 8)
		if slices.ContainsFunc(strings.Split(ids, ","), func(id string) bool { return slices.Contains(got, id) }) {
			found++
		} else {
			t.Logf("%q: want %s, got %s", query, ids, got)
		}
	}
	return asked, found
}

func search(query string, docs []*rank.Document, tools []*tool.Descriptor, limit int) (ids []string) {
	for _, i := range rank.Search(query, docs, limit) {
		ids = append(ids, tools[i].ID)
	}
	return ids
}

// TestOrderIsFixed checks that the order of the tools does not matter, and that equally good tools are sorted by id.
func TestOrderIsFixed(t *testing.T) {
	t.Parallel()
	tools := real(t)
	for i := range 5 {
		tools = append(tools, &tool.Descriptor{ID: fmt.Sprintf("same_%d", i), Description: "folds paper cranes", Source: fmt.Sprintf("mcp:%d", i)})
	}
	docs := documents(tools)
	reversed, reversedDocs := slices.Clone(tools), slices.Clone(docs)
	slices.Reverse(reversed)
	slices.Reverse(reversedDocs)
	for _, query := range []string{"fold a crane", "create an issue", "search", "", "%&!", strings.Repeat("\xff many words ", 500)} {
		got := search(query, docs, tools, 20)
		if again := search(query, reversedDocs, reversed, 20); !slices.Equal(got, again) {
			t.Errorf("%q: %q, and in another order %q", query, got, again)
		}
		selected := selectIDs(query, nil, docs, tools, 20)
		if again := selectIDs(query, nil, reversedDocs, reversed, 20); !slices.Equal(selected, again) || len(selected) != 20 {
			t.Errorf("%q: selects %q, and in another order %q", query, selected, again)
		}
	}
	if got := search("fold a crane", docs, tools, 4); !slices.Equal(got, []string{"same_0", "same_1", "same_2", "same_3"}) {
		t.Errorf("equally good tools: %q", got)
	}
	if got := search("", docs, tools, 4); len(got) != 0 {
		t.Errorf("an empty query finds %q", got)
	}
}

func selectIDs(query string, include []string, docs []*rank.Document, tools []*tool.Descriptor, limit int) (ids []string) {
	for _, i := range rank.Select(query, include, docs, limit) {
		ids = append(ids, tools[i].ID)
	}
	return ids
}

// TestForms checks that a word finds its other forms.
func TestForms(t *testing.T) {
	t.Parallel()
	for _, forms := range []string{
		"cookie cookies", "copy copies copied copying", "modify modifies modified modifying", "query queries querying", "reply replied", "stop stops stopped stopping",
		"create creates created creating creation", "deploy deploys deployed deployment deployments", "pay pays payment", "day days",
		"address addresses", "status statuses", "branch branches", "box boxes", "create_issue createIssue CreateIssues",
	} {
		words := strings.Fields(forms)
		for _, word := range words {
			for _, query := range words {
				tools := []*tool.Descriptor{{ID: word}, {ID: "other"}}
				if got := search(query, documents(tools), tools, 2); !slices.Equal(got, []string{word}) {
					t.Errorf("%q finds %q, want %q", query, got, word)
				}
			}
		}
	}
}

// TestStuffedDescriptions (T139) checks that a source whose descriptions have the words of many queries gets at most three quarters of a
// result, and that the wanted tool of another source is still among 8 results.
func TestStuffedDescriptions(t *testing.T) {
	t.Parallel()
	tools := real(t)
	keywords := strings.Repeat("send an email mail message gmail now best tool create github issue bug ", 200)
	for i := range 50 {
		tools = append(tools, &tool.Descriptor{ID: fmt.Sprintf("evil__send_email_%d", i), Description: keywords, Source: "mcp:evil"})
	}
	docs := documents(tools)
	for query, want := range map[string]string{"send an email": "gmail__send_email", "create a GitHub issue": "github__create_issue"} {
		if got := search(query, docs, tools, 8); !slices.Contains(got, want) {
			t.Errorf("%q: %q is missing: %q", query, want, got)
		}
	}
	stuffed := func(ids []string) int { return strings.Count(strings.Join(ids, " "), "evil__") }
	for limit, most := range []int{0, 1, 1, 2, 3, 3, 4, 5, 6} {
		if got := search("send an email", docs, tools, limit); stuffed(got) != most || len(got) != limit {
			t.Errorf("limit %d: %d stuffed tools, want %d: %q", limit, stuffed(got), most, got)
		}
	}
	include := []string{"asana__asana_add_task_to_section", "github__create_issue", "slack__slack_list_channels", "excel__excel_read_sheet"}
	for _, n := range []int{0, len(include)} { // Included tools must not make room for more stuffed tools.
		if got := selectIDs("send an email", include[:n], docs, tools, n+8); stuffed(got) != 6 || len(got) != n+8 {
			t.Errorf("with %d included tools: %d stuffed tools of %q", n, stuffed(got), got)
		}
	}
}

// TestSelect checks what a selection prefers: the included tools, those of the query, those of the daemon, and one of each source in turn.
func TestSelect(t *testing.T) {
	t.Parallel()
	read := tool.Effects{Mutability: tool.ReadOnly}
	tools := []*tool.Descriptor{
		{ID: "a_1", Source: "mcp:a"}, {ID: "a_2", Source: "mcp:a", Effects: read}, {ID: "a_3", Source: "mcp:a", Description: "whistles"},
		{ID: "b_1", Source: "mcp:b"}, {ID: "b_2", Source: "mcp:b"},
		{ID: "bash", Source: "builtin"}, {ID: "read", Source: "builtin", Effects: read},
	}
	for _, tt := range []struct {
		name, query string
		include     []string
		limit       int
		want        []string
	}{
		{"the daemon's own first", "", nil, 2, []string{"bash", "read"}},
		{"then each source in turn", "", nil, 4, []string{"a_2", "b_1", "bash", "read"}},
		{"the second turn", "", nil, 5, []string{"a_1", "a_2", "b_1", "bash", "read"}},
		{"the query before the usual order", "whistle", nil, 2, []string{"a_3", "read"}},
		{"included tools before the query", "whistle", []string{"b_2", "b_2"}, 2, []string{"a_3", "b_2"}},
		{"the first of too many", "whistle", []string{"b_2", "a_1", "b_1"}, 2, []string{"a_1", "b_2"}},
		{"unknown ids have no effect", "whistle", []string{"c_1"}, 1, []string{"a_3"}},
		{"all", "", nil, 100, []string{"a_1", "a_2", "a_3", "b_1", "b_2", "bash", "read"}},
		{"none", "", nil, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := selectIDs(tt.query, tt.include, documents(tools), tools, tt.limit); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// BenchmarkSearch searches 500 real definitions.
func BenchmarkSearch(b *testing.B) {
	docs := documents(real(b))
	for b.Loop() {
		rank.Search("which checks failed on the pull request", docs, 8)
	}
}

// For any tool and query, ranking does not panic, and does not depend on the order of the tools.
func FuzzSearch(f *testing.F) {
	f.Add("createIssue HTTPServer2 größte 日本語", `{"properties":{"a_b":{"description":"x","enum":["y",1]},"c":true},"items":[]}`, "the issues of a server")
	f.Add("\xff\xfe ing ed s ies", `[]`, strings.Repeat("a b c ", 100))
	f.Fuzz(func(t *testing.T, description, parameters, query string) {
		tools := []*tool.Descriptor{{ID: "b", Description: description, Parameters: json.RawMessage(parameters)}, {ID: "a", Description: query}, {ID: "c"}}
		got := search(query, documents(tools), tools, 3)
		slices.Reverse(tools)
		if again := search(query, documents(tools), tools, 3); !slices.Equal(got, again) {
			t.Errorf("%q, and in another order %q", got, again)
		}
	})
}

// BenchmarkDocuments reads the words of 500 real definitions.
func BenchmarkDocuments(b *testing.B) {
	tools := real(b)
	for b.Loop() {
		documents(tools)
	}
}
