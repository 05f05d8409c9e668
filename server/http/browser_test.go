package httpserver

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPolicies checks which responses have the policy headers. Responses to links and forms need them, because a browser can show these
// responses as documents.
func TestPolicies(t *testing.T) {
	document := slices.Sorted(maps.Keys(policies))
	for _, c := range []struct {
		method, contentType string
		want                []string
	}{
		{http.MethodGet, "", document},
		{http.MethodGet, "application/json", document},
		{http.MethodPost, "", document},
		{http.MethodPost, "text/plain", document},
		{http.MethodPost, "application/x-www-form-urlencoded", document},
		{http.MethodPost, "multipart/form-data; boundary=application/json", document},
		{http.MethodPost, "application/json", nil},
		{http.MethodPost, "application/json; charset=utf-8", nil},
	} {
		r := httptest.NewRequest(c.method, "http://localhost/", nil)
		if c.contentType != "" {
			r.Header.Set("Content-Type", c.contentType)
		}
		w := httptest.NewRecorder()
		(&Server{}).protect(http.HandlerFunc(alive)).ServeHTTP(w, r)
		w.Header().Del("Content-Type")
		if diff := cmp.Diff(c.want, slices.Sorted(maps.Keys(w.Header()))); diff != "" {
			t.Errorf("%s with a body of type %q: %s", c.method, c.contentType, diff)
		}
	}
}
