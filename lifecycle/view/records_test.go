package view_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// journal is a store of a few calls. Like the real journal it checks no access, and returns the calls that match a query.
type journal map[string]*call.Call

func (j journal) Calls(_ context.Context, q call.Query) (page call.Page, err error) {
	for _, id := range slices.Sorted(maps.Keys(j)) {
		c := j[id]
		if c.Namespace == q.Namespace && (q.Caller == "" || q.Caller == c.Caller.Subject) && (len(q.Statuses) == 0 || slices.Contains(q.Statuses, c.Status)) {
			page.Calls = append(page.Calls, c)
		}
	}
	return page, nil
}

func (journal) Children(context.Context, string, []string) ([]*call.Call, error) { return nil, nil }

func (journal) Run(context.Context, string, string) (*store.Run, error) {
	return nil, store.ErrNotFound
}
func (journal) RunCounts(context.Context, string, string) (map[call.Status]int, error) {
	return map[call.Status]int{call.Suspended: 1}, nil
}

func (j journal) Expiring(ctx context.Context, q call.Query) (call.Page, error) {
	return j.Calls(ctx, call.Query{Namespace: q.Namespace, Statuses: []call.Status{call.Suspended}})
}

func (journal) CountsOf(context.Context, string) (map[call.Status]int, map[string]int, error) {
	return map[call.Status]int{call.Suspended: 7}, map[string]int{"approval": 7}, nil
}

func (journal) Documents(context.Context, string, ...store.DocumentScope) ([]tool.Document, error) {
	return []tool.Document{{Key: "a"}, {Key: "b"}}, nil
}

// ofAlice is a store of owners and modes: alice began every run and thread, and no modes are set.
type ofAlice struct{}

var errUnknown = errors.New("unknown")

func (ofAlice) See(_ context.Context, p tool.Principal, _ tool.Scope, _ string) (string, error) {
	if p.Subject != "alice" && !view.SeesAll(p) {
		return "", errUnknown
	}
	return "alice", nil
}

func (ofAlice) Modes(string, string, string) (ofRun, ofThread string) { return "plan", "" }

func made(id, namespace, caller string, status call.Status, rounds ...call.Round) *call.Call {
	return &call.Call{
		Namespace: namespace, ID: id, Caller: tool.Principal{Namespace: namespace, Subject: caller}, Status: status, Rounds: rounds,
		Description: tool.Description{Kind: tool.KindEdit, Title: "Edit", Notes: []string{"looked up"}},
	}
}

func question(origin string, a *tool.Approvers) call.Round {
	return call.Round{Suspension: call.Suspension{Origin: origin, Approvers: a, Description: tool.Description{Kind: tool.KindEdit, Title: "Edit", Notes: []string{"looked up"}}}}
}

// TestEachRoleGetsWhatItLists checks, for each role, that Get returns exactly the calls that lists, runs, documents and feeds show, with
// the same content.
func TestEachRoleGetsWhatItLists(t *testing.T) {
	operators := &tool.Approvers{Roles: []string{"operator"}}
	fourEyes := &tool.Approvers{Roles: []string{"approver"}, DistinctFromCaller: true}
	j := journal{}
	for _, c := range []*call.Call{
		made("alice-ended", "ns", "alice", call.Succeeded),
		made("alice-asks", "ns", "alice", call.Suspended, question("gate", nil)),
		made("alice-asks-operators", "ns", "alice", call.Suspended, question("gate", operators)),
		made("alice-asks-others", "ns", "alice", call.Suspended, question("gate", fourEyes)),
		made("bob-ended", "ns", "bob", call.Succeeded),
		made("bob-asks", "ns", "bob", call.Suspended, question("gate", nil)),
		made("bob-asked", "ns", "bob", call.Failed, question("gate", nil)),
		made("bob-asks-operators", "ns", "bob", call.Suspended, question("gate", operators)),
		made("mallory-asks", "other", "mallory", call.Suspended, question("gate", nil)),
		made("alice-of-other", "other", "alice", call.Succeeded),
	} {
		j[c.ID] = c
	}
	var all []string
	for _, id := range slices.Sorted(maps.Keys(j)) {
		if j[id].Namespace == "ns" {
			all = append(all, id)
		}
	}
	records := view.NewRecords(view.Config{
		Store: j, Owners: ofAlice{}, Modes: ofAlice{}, Settle: func() {},
		Call: func(_ context.Context, key call.Key) (*call.Call, error) {
			if c := j[key.ID]; c != nil && c.Namespace == key.Namespace {
				return c, nil
			}
			return nil, store.ErrNotFound
		},
	})
	ofAlice := []string{"alice-asks", "alice-asks-operators", "alice-asks-others", "alice-ended"}
	answered := []string{"alice-asks", "alice-asks-others", "bob-asked", "bob-asks"}
	tests := []struct {
		subject, roles string
		gets, lists    []string // lists is the result of a query without a status
		waits          []string // result of a query for suspended calls only
		whole          []string // calls whose description includes the data that the tool read
		run, namespace bool
	}{
		{"alice", "caller", ofAlice, ofAlice, ofAlice[:3], []string{"alice-asks"}, true, false},
		{"alice", "caller approver", append([]string{"bob-asked", "bob-asks"}, ofAlice...), ofAlice, []string{"alice-asks", "alice-asks-operators", "alice-asks-others", "bob-asks"}, []string{"alice-asks", "bob-asked", "bob-asks"}, true, false},
		{"carl", "caller", nil, nil, nil, nil, false, false},
		{"ann", "approver", answered, nil, []string{"alice-asks", "alice-asks-others", "bob-asks"}, answered, false, false},
		{"vera", "viewer", all, all, nil, all, true, true},
		{"oscar", "operator", all, all, nil, all, true, true},
		{"wes", "worker", nil, nil, nil, nil, false, false},
		{"adam", "admin", nil, nil, nil, nil, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.subject+" "+tt.roles, func(t *testing.T) {
			p := tool.Principal{Namespace: "ns", Subject: tt.subject, Roles: strings.Fields(tt.roles)}
			gets, whole := map[string]*call.Call{}, []string(nil)
			for id := range j {
				c, err := records.Get(t.Context(), p, id)
				if err == nil {
					gets[id] = c
				} else if refused := new(call.Refusal); !errors.As(err, &refused) || refused.Reason != "CALL_NOT_FOUND" {
					t.Error(err)
				}
				if err == nil && len(c.Description.Notes) > 0 {
					whole = append(whole, id)
				}
			}
			want := func(what string, got, want []string) {
				t.Helper()
				if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
					t.Errorf("%s %q, want %q", what, got, want)
				}
			}
			want("gets", slices.Collect(maps.Keys(gets)), tt.gets)
			want("gets whole", whole, tt.whole)
			list := func(statuses ...call.Status) (ids []string) {
				t.Helper()
				page, err := records.List(t.Context(), p, call.Query{Statuses: statuses})
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range page.Calls {
					if ids = append(ids, c.ID); !reflect.DeepEqual(c, gets[c.ID]) {
						t.Errorf("lists %+v and gets %+v", c, gets[c.ID])
					}
				}
				return ids
			}
			want("lists", list(), tt.lists)
			if waits := list(call.Suspended); tt.waits != nil {
				want("lists of those that wait", waits, tt.waits)
			}
			run, err := records.Run(t.Context(), p, "run")
			if tt.run != (err == nil) || err == nil && (run.State != call.RunWaiting || run.Mode != "plan") {
				t.Errorf("run %+v, %v", run, err)
			}
			for scope, sees := range map[tool.Scope]bool{tool.RunScope: tt.run, tool.ThreadScope: tt.run, tool.NamespaceScope: tt.namespace} {
				docs, err := records.Documents(t.Context(), p, scope, "id")
				if sees != (err == nil) || sees != (len(docs) == 2) {
					t.Errorf("documents of %s: %v, %v", scope, docs, err)
				}
				d, err := records.Document(t.Context(), p, scope, "id", "b")
				if sees != (err == nil) || sees != (d.Key == "b") {
					t.Errorf("document of %s: %v, %v", scope, d, err)
				}
			}
			for _, run := range []string{"", "run"} {
				f, err := view.Feed(p, run, "")
				if sees := tt.namespace || run != ""; sees != (err == nil) || sees && (f.Namespace != "ns" || tt.namespace != (f.Caller == "") || !tt.namespace && f.Caller != p.Subject) {
					t.Errorf("feed %+v, %v", f, err)
				}
			}
		})
	}
}

// TestFeedEventsAreCopied checks that FeedEvents removes hidden data from a copy, because other watchers share the events of a feed.
func TestFeedEventsAreCopied(t *testing.T) {
	r := question("gate", &tool.Approvers{Roles: []string{"operator"}})
	events := []call.Event{{Type: call.EventSuspended, Suspension: &r.Suspension}}
	for role, whole := range map[string]bool{"caller": false, "viewer": true} {
		got := view.FeedEvents(tool.Principal{Namespace: "ns", Subject: "alice", Roles: []string{role}}, events)
		if whole != (len(got[0].Suspension.Description.Notes) > 0) || len(events[0].Suspension.Description.Notes) == 0 {
			t.Errorf("%s: %+v", role, got[0].Suspension.Description)
		}
	}
}
