package lifecycle_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// revealing is a tool whose description contains data that its caller may not be allowed to read.
type revealing struct{ tool.Tool }

func (revealing) Describe(context.Context, *tool.Call) (tool.Description, error) {
	return tool.Description{
		Kind: tool.KindEdit, Title: "Edit a.txt", Notes: []string{"holds a secret"},
		Preview: []tool.Content{{Type: tool.ContentText, Text: "-the secret"}},
	}, nil
}

func reveals(d tool.Description) bool { return len(d.Preview)+len(d.Notes) > 0 }

// TestDescriptionsAreForApprovers checks the data that a tool looked up for a question. Until the gates have allowed the call, only
// principals that may answer the question see it, through any API. After that, the caller sees it too.
func TestDescriptionsAreForApprovers(t *testing.T) {
	edit := revealing{made("edit", mutating, func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("done"), nil })}
	inBubble(t, []tool.Tool{edit}, gates(namedGate("g", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		look := func(p tool.Principal, id string, want bool) {
			t.Helper()
			c, err := w.e.Records().Get(t.Context(), p, id)
			if err != nil {
				t.Fatal(err)
			}
			see := func(where string, d tool.Description) {
				t.Helper()
				if reveals(d) != want || d.Title == "" {
					t.Errorf("%s of a %s call shows %s %+v, want all of it: %t", where, c.Status, p.Subject, d, want)
				}
			}
			see("GetCall", c.Description)
			if open := c.Open(); open != nil {
				see("the ticket", open.Description)
			}
			page, err := w.e.Records().List(t.Context(), p, call.Query{Statuses: []call.Status{c.Status}})
			if err != nil || len(page.Calls) == 0 {
				if p.Subject == alice.Subject || err != nil {
					t.Fatalf("ListCalls: %+v, %v", page, err)
				}
				return // An approver can list only suspended calls.
			}
			see("ListCalls", page.Calls[0].Description)
			watcher, err := w.e.Watch(t.Context(), p, id, "", false)
			if err != nil {
				t.Fatal(err)
			}
			f, err := watcher.Next(t.Context())
			watcher.Close()
			if err != nil || f.Snapshot == nil {
				t.Fatalf("%+v, %v", f, err)
			}
			see("the snapshot", f.Snapshot.Description)
		}
		wantShown := func(p tool.Principal, id string, want bool) {
			t.Helper()
			watcher, err := w.e.Watch(t.Context(), p, id, "c1.1.0", false)
			if err != nil {
				t.Fatal(err)
			}
			list, _ := events(t, watcher)
			for _, ev := range list {
				if ev.Suspension != nil && reveals(ev.Suspension.Description) != want {
					t.Errorf("the event shows %s %+v", p.Subject, ev.Suspension.Description)
				}
			}
		}
		s := spec("edit", "")
		first := w.start(s, call.ExecuteOptions{})
		synctest.Wait()
		if c := first.Call(); c.Status != call.Suspended || reveals(c.Open().Description) {
			t.Errorf("the call as its caller waits for it: %s %+v", c.Status, c.Open())
		}
		first.Close()
		feed, err := w.e.Watches().WatchFeed(t.Context(), alice, "run-1", "", "", false)
		if err != nil {
			t.Fatal(err)
		}
		list, _ := events(t, feed)
		for _, ev := range list {
			if ev.Suspension != nil && reveals(ev.Suspension.Description) {
				t.Errorf("the feed of the run shows %+v", ev.Suspension.Description)
			}
		}
		for p, want := range map[*tool.Principal]bool{&alice: false, &bob: true, &carol: true} {
			look(*p, s.ID, want)
			wantShown(*p, s.ID, want)
		}
		preview, err := w.e.Describe(t.Context(), alice, spec("edit", ""))
		if err != nil || preview.Outcome != string(hook.KindSuspend) || reveals(preview.Description) {
			t.Errorf("DescribeCall: %+v, %v", preview, err)
		}
		w.answer(bob, w.get(s.ID), yes())
		look(alice, s.ID, true)

		declined := w.do(spec("edit", ""))
		w.answer(bob, w.get(declined.ID), no("not that"))
		look(alice, declined.ID, false)
		look(bob, declined.ID, true)
	})
}

var _ tool.Describer = revealing{}

func (r revealing) Descriptor() tool.Descriptor {
	d := r.Tool.Descriptor()
	d.Parameters = json.RawMessage(anyObject)
	return d
}

// damagedCalls is a journal with a call that cannot be read.
type damagedCalls struct{ store.Store }

func (s damagedCalls) Calls(ctx context.Context, q call.Query) (call.Page, error) {
	page, err := s.Store.Calls(ctx, q)
	page.Corrupt = append(page.Corrupt, call.Key{Namespace: "ns", ID: "damaged"})
	return page, err
}

// TestT130DamagedCallsAreNotListedToApprovers checks that lists for an approver contain no damaged calls: the approver may not be allowed
// to see their questions.
func TestT130DamagedCallsAreNotListedToApprovers(t *testing.T) {
	inBubble(t, nil, nil, func(t *testing.T, w *world) {
		w.kill()
		w.cfg.Store = damagedCalls{w.store}
		e, err := lifecycle.New(w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		w.e = e
		for role, want := range map[string]int{"approver": 0, "operator": 1, "viewer": 1} {
			p := tool.Principal{Namespace: "ns", Subject: "somebody", Roles: []string{role}}
			page, err := w.e.Records().List(t.Context(), p, call.Query{Statuses: []call.Status{call.Suspended}, Limit: 10})
			if err != nil || len(page.Corrupt) != want {
				t.Errorf("%s: %v, %v, want %d", role, page.Corrupt, err, want)
			}
		}
	})
}
