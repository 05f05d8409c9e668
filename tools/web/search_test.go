package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/web"
)

// recorded serves a response that was recorded from a provider. When the server has received a request, *asked is this request.
func recorded(t *testing.T, file string) (base string, asked *http.Request) {
	t.Helper()
	answer, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	asked = &http.Request{}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		*asked = *r.Clone(t.Context())
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})
	return s.URL, asked
}

func hits(t *testing.T, p web.Provider, args map[string]any) (list []web.Hit, text string) {
	t.Helper()
	r, err := run(t, tools(t, web.Config{Search: p})["web_search"], args)
	if err != nil || !r.IsSuccess() {
		t.Fatalf("%v, %v", r.ModelText(), err)
	}
	var data struct{ Hits []web.Hit }
	if err := json.Unmarshal([]byte(r.Data), &data); err != nil {
		t.Fatal(err)
	}
	return data.Hits, r.ModelText()
}

func TestBrave(t *testing.T) {
	base, asked := recorded(t, "brave.json")
	list, text := hits(t, web.Brave(base+"/res/v1/web/search", web.FixedKey("the-key")), map[string]any{"query": "go testing"})
	if len(list) != 2 || list[0] != (web.Hit{"testing - Go Packages", "https://pkg.go.dev/testing", "Package testing provides support for automated testing of Go packages & more."}) {
		t.Errorf("hits = %+v", list)
	}
	contains(t, text, "1. testing - Go Packages\n   https://pkg.go.dev/testing\n", "2. Add a test")
	q := asked.URL.Query()
	if asked.Header.Get("X-Subscription-Token") != "the-key" || q.Get("q") != "go testing" || q.Get("count") != "8" || asked.URL.Path != "/res/v1/web/search" {
		t.Errorf("asked %v with %v", asked.URL, asked.Header)
	}
	if list, _ = hits(t, web.Brave(base, web.FixedKey("k")), map[string]any{"query": "a&b=c", "count": 1}); len(list) != 1 || asked.URL.Query().Get("q") != "a&b=c" || asked.URL.Query().Get("count") != "1" {
		t.Errorf("hits = %+v of %v", list, asked.URL)
	}
}

// TestKeyOfBrave checks that the key is requested again before each search, and that no request is sent without a key.
func TestKeyOfBrave(t *testing.T) {
	base, asked := recorded(t, "brave.json")
	keys := []string{"first", "second"}
	search := web.Brave(base, func(context.Context) (string, error) {
		if len(keys) == 0 {
			return "", errors.New("secret brave is not available to this tool")
		}
		key := keys[0]
		keys = keys[1:]
		return key, nil
	})
	for _, want := range []string{"first", "second"} {
		if hits(t, search, map[string]any{"query": "x"}); asked.Header.Get("X-Subscription-Token") != want {
			t.Errorf("asked with %v, want %s", asked.Header, want)
		}
	}
	_, err := run(t, tools(t, web.Config{Search: search})["web_search"], map[string]any{"query": "y"})
	var e *tool.Error
	if !errors.As(err, &e) || e.Code != tool.ExecutionFailed || e.Reason != "SECRET_UNAVAILABLE" || e.Message != "Not run: secret brave is not available to this tool" || asked.URL.Query().Get("q") == "y" {
		t.Errorf("%#v", err)
	}
}

func TestSearXNG(t *testing.T) {
	base, asked := recorded(t, "searxng.json")
	list, _ := hits(t, web.SearXNG(base+"/at/"), map[string]any{"query": "go testing", "count": 20})
	if len(list) != 2 || list[1] != (web.Hit{Title: "Add a test", URL: "https://go.dev/doc/tutorial/add-a-test"}) {
		t.Errorf("hits = %+v", list)
	}
	if asked.URL.Path != "/at/search" || asked.URL.Query().Get("format") != "json" || asked.Header.Get("X-Subscription-Token") != "" {
		t.Errorf("asked %v", asked.URL)
	}
}

func TestNothingFound(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"results":[]}`)) })
	if list, text := hits(t, web.SearXNG(s.URL), map[string]any{"query": "x"}); len(list) != 0 || !strings.HasPrefix(text, "No results") {
		t.Errorf("%+v, %q", list, text)
	}
}

func TestSearchFailures(t *testing.T) {
	elsewhere, came := canary(t)
	for name, tt := range map[string]struct {
		serve     http.HandlerFunc
		retryable bool
		after     time.Duration
	}{
		"key": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, false, 0},
		"too many": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		}, true, 7 * time.Second},
		"down":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, true, 0},
		"garbage": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, true, 0},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+elsewhere, http.StatusFound)
		}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(tt.serve)
			defer s.Close()
			_, err := run(t, tools(t, web.Config{Search: web.Brave(s.URL, web.FixedKey("the-key"))})["web_search"], map[string]any{"query": "x"})
			var e *tool.Error
			if !errors.As(err, &e) || e.Code != tool.Upstream || e.Retryable != tt.retryable || e.RetryAfter != tt.after {
				t.Fatalf("%#v", err)
			}
			if strings.Contains(e.Message+e.DeveloperMessage, "the-key") || strings.Contains(e.Message, url.QueryEscape(s.URL)) {
				t.Errorf("%+v tells too much", e)
			}
		})
	}
	if came() != 0 {
		t.Error("the key went elsewhere")
	}
}
