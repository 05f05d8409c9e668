package grpcserver_test

import (
	"slices"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func TestListSources(t *testing.T) {
	w := newWorld(t, options{})
	got, err := tooldv1.NewAdminServiceClient(w.as("oscar")).ListSources(within(t), &tooldv1.ListSourcesRequest{})
	must(t, err)
	s := got.GetSources()
	if len(s) != 2 || s[0].GetState() != tooldv1.SourceState_SOURCE_STATE_READY || s[0].GetSince() != nil || s[0].GetTools() != 3 {
		t.Fatalf("the sources are %v", s)
	}
	if s[1].GetState() != tooldv1.SourceState_SOURCE_STATE_DOWN || s[1].GetError() != "gone" || s[1].GetSince().AsTime().Unix() != 1 || s[1].GetRefused()[0].GetReason() != "a space" {
		t.Errorf("the source is %v", s[1])
	}
}

// TestT117SourcesOfOtherNamespaces (T117) checks that an operator sees only the sources that offer tools to its namespace, and an admin
// sees the sources of all namespaces.
func TestT117SourcesOfOtherNamespaces(t *testing.T) {
	w := newWorld(t, options{})
	for user, want := range map[string][]string{
		"oscar":   {"builtin", "mcp:w"},
		"mallory": {"builtin", "worker:other/p", "worker:other/down", "mcp:w"},
		"adam":    {"builtin", "worker:other/p", "worker:other/down", "mcp:w"},
	} {
		got, err := tooldv1.NewAdminServiceClient(w.as(user)).ListSources(within(t), &tooldv1.ListSourcesRequest{})
		must(t, err)
		var names []string
		for _, s := range got.GetSources() {
			names = append(names, s.GetName())
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s sees %q, want %q", user, names, want)
		}
	}
}
