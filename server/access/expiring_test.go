package access_test

import (
	"slices"
	"testing"
	"time"
)

// TestExpiring checks that operators see the expiring tokens of their namespace, admins see all of them, and nobody sees sessions.
func TestExpiring(t *testing.T) {
	a := start(t, newMemoryStore())
	for creator, name := range map[string]string{"root": "deploy", "olga": "ci"} {
		g := grant("caller")
		g.Name = name
		_, _, err := a.Create(t.Context(), as(t, a, textOf(creator)), g)
		must(t, err)
		_, _, err = a.CreateLogin(t.Context(), as(t, a, textOf(creator)))
		must(t, err)
	}
	for subject, want := range map[string][]string{"root": {"temp", "ci", "deploy"}, "olga": {"temp", "ci"}} {
		var got []string
		for _, e := range a.Expiring(as(t, a, textOf(subject)), func(created, expires time.Time) bool { return expires.After(time.Now()) }) {
			got = append(got, e.Name)
			if (e.Name == "temp") != e.Created.IsZero() {
				t.Errorf("%s was made at %v", e.Name, e.Created)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", subject, got, want)
		}
	}
	if got := a.Expiring(as(t, a, textOf("root")), func(_, _ time.Time) bool { return false }); len(got) > 0 {
		t.Errorf("nothing ends soon, got %v", got)
	}
}
