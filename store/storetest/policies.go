package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// policies returns the stored policies as "namespace kind key=value".
func (f *fixture) policies() []string {
	f.t.Helper()
	all := []string{}
	err := f.Policies(f.t.Context(), func(p store.Policy, err error) error {
		all = append(all, p.Namespace+" "+p.Kind+" "+p.Key+"="+string(p.Value))
		return err
	})
	if err != nil {
		f.t.Fatalf("Policies = %v", err)
	}
	slices.Sort(all)
	return all
}

func (f *fixture) putPolicy(p store.Policy) {
	f.t.Helper()
	if err := f.PutPolicy(f.t.Context(), p); err != nil {
		f.t.Fatalf("PutPolicy = %v", err)
	}
}

func policyOf(key, value string) store.Policy {
	return store.Policy{Namespace: "ns", Kind: "rule", Key: key, Scope: tool.NamespaceScope, Value: []byte(value)}
}

// testPolicies checks that a policy that is set with a decision is stored if and only if the decision is stored.
func testPolicies(t *testing.T, f *fixture) {
	c := f.suspended("c1", start.Add(time.Hour))
	stale := f.get("c1")
	change := decide(c, "d", "x")
	change.Policies = []store.Policy{policyOf("with the decision", "1")}
	f.commit(change)
	lost := decide(stale, "d2", "x")
	lost.Policies = []store.Policy{policyOf("with a decision that lost", "1")}
	if err := f.Commit(t.Context(), lost); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("second decision = %v", err)
	}
	value := []byte("1")
	other := policyOf("alone", "")
	other.Namespace, other.Value = "other", value
	f.putPolicy(other)
	value[0] = 'x' // The caller may modify its slice after the commit.
	f.putPolicy(policyOf("gone", "1"))
	f.putPolicy(policyOf("changed", "1"))
	removed := policyOf("gone", "")
	removed.Value = nil
	change = step(c, call.Running)
	change.Policies = []store.Policy{policyOf("changed", "2"), removed}
	f.commit(change)
	want := []string{"ns rule changed=2", "ns rule with the decision=1", "other rule alone=1"}
	for _, again := range []func(){func() {}, f.reopen, f.crash} {
		again()
		if got := f.policies(); !same(got, want) {
			t.Errorf("policies %q, want %q", got, want)
		}
	}
}

// testPoliciesEnd checks that the policies of a run are removed when the run ends. Trim must remove old policies that have expired, and old
// policies of runs and threads without calls.
func testPoliciesEnd(t *testing.T, f *fixture) {
	c := f.create("a", func(c *call.Call) { c.Run.ID, c.Run.Thread = "r", "t" })
	in := func(key string, scope tool.Scope, id string, expires call.Stamp) {
		p := policyOf(key, "1")
		p.Scope, p.ScopeID, p.Expires = scope, id, expires
		f.putPolicy(p)
	}
	for _, id := range []string{"r", "r2"} {
		in("run "+id, tool.RunScope, id, 0)
	}
	in("thread t", tool.ThreadScope, "t", 0)
	in("thread t2", tool.ThreadScope, "t2", 0)
	in("short", tool.NamespaceScope, "", start.Add(time.Hour))
	in("long", tool.NamespaceScope, "", start.Add(10*time.Hour))
	check := func(want ...string) {
		t.Helper()
		for i := range want {
			want[i] = "ns rule " + want[i] + "=1"
		}
		slices.Sort(want)
		if got := f.policies(); !same(got, want) {
			t.Errorf("policies %q, want %q", got, want)
		}
	}
	if _, err := f.Trim(t.Context(), start, 0, 0, 10); err != nil {
		t.Fatal(err)
	}
	check("long", "run r", "run r2", "short", "thread t", "thread t2") // All of them are too young to be trimmed.
	if err := f.EndRun(t.Context(), store.Run{Namespace: "ns", ID: "r", State: call.RunEnded}); err != nil {
		t.Fatal(err)
	}
	check("long", "run r2", "short", "thread t", "thread t2")
	f.step(c, call.Running)
	f.commitTrim(start.Add(2 * time.Hour))
	check("long", "thread t")
	f.step(c, call.Succeeded)
	f.commitTrim(start.Add(3 * time.Hour))
	check("long")
}
