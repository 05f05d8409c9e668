package web_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tools/web"
)

// The test checks that lists nested hundreds of levels deep do not indent every line hundreds of times (T53).
func TestIndentationIsBounded(t *testing.T) {
	for name, body := range map[string]string{
		"quotes": strings.Repeat("<blockquote>", 250) + strings.Repeat("x<br>", 10_000),
		"lists":  strings.Repeat("<ul><li>", 120) + strings.Repeat("x<br>", 10_000),
	} {
		s := serve(t, html(body))
		before := heap()
		p := fetched(t, tools(t, web.Config{Addresses: local})["fetch"], map[string]any{"url": s.URL})
		if took := heap() - before; len(p.Content) > 16*len(body) || took > 256<<20 {
			t.Errorf("%s: %d bytes became %d, %d on the way", name, len(body), len(p.Content), took)
		}
		runtime.GC()
	}
}

// The test checks that a long title or media type of a page is cut.
func TestTitlesAreBounded(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; x="+strings.Repeat("y", 20_000))
		_, _ = w.Write([]byte("<title>" + strings.Repeat("é", 100_000) + "</title>text"))
	})
	if p := fetched(t, tools(t, web.Config{Addresses: local})["fetch"], map[string]any{"url": s.URL}); len(p.Title) > 310 || len(p.ContentType) > 310 {
		t.Errorf("title of %d bytes, type of %d", len(p.Title), len(p.ContentType))
	}
}

// The test checks that a denied host is denied in every spelling of its address.
func TestDeniedAddresses(t *testing.T) {
	s := serve(t, html("<p>x"))
	fetch := tools(t, web.Config{Addresses: local, DenyHosts: []string{"127.0.0.1"}})["fetch"]
	for _, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]", "[0:0:0:0:0:ffff:7f00:1]"} {
		if got := refused(t, fetch, strings.Replace(s.URL, "127.0.0.1", host, 1)); got != "URL_REFUSED" {
			t.Errorf("%s: %s", host, got)
		}
	}
}
