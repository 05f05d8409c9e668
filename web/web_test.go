package web_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/toold-dev/toold/web"
)

// get asks the console for a path. Headers come in pairs.
func get(t *testing.T, path string, header ...string) (*http.Response, string) {
	t.Helper()
	pages, err := web.New()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, r)
	resp := w.Result()
	body := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			t.Fatal(err)
		}
	}
	text, err := io.ReadAll(body) // the reader checks the length and the sum of the content
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

func TestPages(t *testing.T) {
	resp, index := get(t, "/inbox/01J8")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/html; charset=utf-8" || resp.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("a page: %d %v", resp.StatusCode, resp.Header)
	}
	if again, _ := get(t, "/", "If-None-Match", resp.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("a page that the browser has: %d, want 304", again.StatusCode)
	}
	for _, known := range []string{`"0", ` + resp.Header.Get("ETag"), strings.TrimPrefix(resp.Header.Get("ETag"), "W/"), "*"} {
		if again, _ := get(t, "/", "If-None-Match", known); again.StatusCode != http.StatusNotModified {
			t.Errorf("a page that the browser has as %s: %d, want 304", known, again.StatusCode)
		}
	}
	if again, _ := get(t, "/", "If-None-Match", `"0"`); again.StatusCode != http.StatusOK {
		t.Errorf("a page that the browser has from before: %d, want 200", again.StatusCode)
	}
	script := regexp.MustCompile(`src="(/assets/[^"]+\.js)"`).FindStringSubmatch(index)
	if script == nil {
		t.Fatalf("index.html names no script: %s", index)
	}
	plain, text := get(t, script[1])
	packed, same := get(t, script[1], "Accept-Encoding", "br, gzip")
	if packed.Header.Get("Content-Encoding") != "gzip" || same != text || len(text) < 100_000 {
		t.Errorf("the script has %d bytes, and %d after compression %q", len(text), len(same), packed.Header.Get("Content-Encoding"))
	}
	if got := plain.Header.Get("Content-Type") + " " + plain.Header.Get("Cache-Control"); got != "text/javascript; charset=utf-8 public, max-age=31536000, immutable" {
		t.Errorf("the script is sent as %s", got)
	}
	if missing, _ := get(t, "/assets/none.js"); missing.StatusCode != http.StatusNotFound {
		t.Errorf("a missing asset: %d, want 404", missing.StatusCode)
	}
	if resp, _ := get(t, "/assets/../../etc/passwd"); resp.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("a path outside: %v", resp.Header)
	}
}

func TestEncodings(t *testing.T) {
	for accept, want := range map[string]string{
		"gzip": "gzip", "br, GZIP": "gzip", "gzip;q=0.5": "gzip", "gzip; q=1.0": "gzip",
		"": "", "br": "", "gzip;q=0": "", "gzip; q=0.000, identity": "", "x-gzipped": "",
	} {
		resp, _ := get(t, "/", "Accept-Encoding", accept)
		if got := resp.Header.Get("Content-Encoding"); got != want {
			t.Errorf("Accept-Encoding %q gives %q, want %q", accept, got, want)
		}
		if resp.ContentLength <= 0 {
			t.Errorf("Accept-Encoding %q gives no Content-Length", accept)
		}
	}
}
