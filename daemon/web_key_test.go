package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestT79KeyOfASearchIsNowhere (T79) checks a search engine that repeats its key, which comes from a file. The key must not appear in
// search results, errors, the log or the journal.
func TestT79KeyOfASearchIsNowhere(t *testing.T) {
	const key = "key-of-the-search-engine"
	sent := make(chan string, 10)
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := r.Header.Get("X-Subscription-Token")
		sent <- got
		if r.URL.Query().Get("q") == "fail" {
			http.Redirect(w, r, "http://127.0.0.1:1/?key="+got, http.StatusFound)
			return
		}
		fmt.Fprintf(w, `{"web":{"results":[{"title":"your key is %s","url":"https://x.example/?key=%[1]s","description":"again: %[1]s"}]}}`, got)
	}))
	defer engine.Close()
	s := newSite(t, "rules:\n  - {action: allow, tools: [web_search]}\n")
	dir := filepath.Dir(s.rules)
	file, config := filepath.Join(dir, "key"), filepath.Join(dir, "toold.yaml")
	must(t, os.WriteFile(file, []byte(key+"\n"), 0o600))
	must(t, os.WriteFile(config, fmt.Appendf(nil, "web: {search: brave, search_url: %q, search_key_file: %q}\n", engine.URL, file), 0o600))
	p := s.start("--config", config)
	shown := ""
	for i, query := range []string{"words", "fail"} {
		got, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{
			Tool: "web_search", CallId: fmt.Sprintf("web-key-call-%04d", i), Arguments: fmt.Sprintf(`{"query":%q}`, query),
		}})
		must(t, err)
		shown += got.GetCall().String() + "\n"
		if got := <-sent; got != key {
			t.Errorf("the engine was sent %q", got)
		}
	}
	if !strings.Contains(shown, "your key is [redacted") {
		t.Errorf("the answers do not contain the engine's answer: %s", shown)
	}
	journal := filesOf(t, s.data) // before the write-ahead log is removed
	p.signal(syscall.SIGTERM)
	p.wait(hangs)
	for source, text := range map[string]string{"answers": shown, "journal": string(journal), "log": p.log.String(), "files": string(filesOf(t, s.data))} {
		if strings.Contains(text, key) {
			t.Errorf("the key is in the %s", source)
		}
	}
}
