package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// postman is a notifier that requests three posts for each event: one in queue a, one in queue b and a malformed one.
type postman struct{ woken map[string]int }

func (p *postman) Notify(n hook.Notice) (posts []hook.Post) {
	if n.Call.Tool == "panics" {
		panic("no")
	}
	text, _ := json.Marshal(fmt.Sprint(n.Event.Type, " ", n.Call.Status))
	return []hook.Post{{Queue: "a", Payload: string(text)}, {Queue: "b", Payload: `1`}, {Queue: "b", Payload: `{`}}
}

func succeeds(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("done"), nil }

func (p *postman) Wake(queue string) { p.woken[queue]++ }

func notified(p *postman) func(*lifecycle.Config) {
	return func(c *lifecycle.Config) { c.Hooks.Notifier = []hook.Entry[hook.Notifier]{{Name: "post", Hook: p}} }
}

// posts returns the posts of one call in queue a.
func (w *world) posts(id string) (texts []string) {
	w.t.Helper()
	list, err := w.e.Outbox().Posts(w.t.Context(), "post", "a", 0, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, a := range list {
		if a.CallID == id {
			texts = append(texts, a.Payload)
		}
	}
	return texts
}

// TestPostsCommitWithTheirEvents checks that a post is stored in the same commit as its event and survives a crash. A refused change stores
// no post, and a notifier that panics does not fail its call.
func TestPostsCommitWithTheirEvents(t *testing.T) {
	p := &postman{woken: map[string]int{}}
	tools := []tool.Tool{asks("ask", tool.Ticket{}), made("read", reading, succeeds), made("write", mutating, succeeds), made("panics", mutating, succeeds)}
	inBubble(t, tools, notified(p), func(t *testing.T, w *world) {
		full := true
		w.useStore(nil, failing(func(_ int, c *change) bool { return full && (c.ends() || c.Decision != nil) }))
		asked := w.do(spec("ask", ""))
		if _, err := w.resume(alice, asked, no("no")); err == nil {
			t.Fatal("declined on a full journal")
		}
		wantPosts(t, w, asked.ID, `"suspended SUSPENDED"`)
		full = false
		w.answer(alice, asked, no("no"))
		read, write := w.do(spec("read", "")), w.do(spec("write", ""))
		if c := w.do(spec("panics", "")); c.Status != call.Succeeded {
			t.Errorf("a notifier that panics: %s", c.Status)
		}
		time.Sleep(time.Second)
		for range 2 {
			wantPosts(t, w, asked.ID, `"suspended SUSPENDED"`, `"finished CANCELLED"`)
			wantPosts(t, w, read.ID, `"finished SUCCEEDED"`)
			wantPosts(t, w, write.ID, `"finished SUCCEEDED"`)
			w.crash()
		}
		if p.woken["a"] < 4 || p.woken["b"] < 4 {
			t.Errorf("woken %v", p.woken)
		}
	})
}

func wantPosts(t *testing.T, w *world, id string, want ...string) {
	t.Helper()
	if got := w.posts(id); !slices.Equal(got, want) {
		t.Errorf("posts %q, want %q", got, want)
	}
}

// TestPostsAreSettled checks that a delivered post is removed. A post that cannot be delivered becomes a dead letter. When an operator
// retries it, it returns to its queue.
func TestPostsAreSettled(t *testing.T) {
	p := &postman{woken: map[string]int{}}
	inBubble(t, []tool.Tool{made("write", mutating, succeeds)}, notified(p), func(t *testing.T, w *world) {
		first, second := w.do(spec("write", "")), w.do(spec("write", ""))
		list, err := w.e.Outbox().Posts(t.Context(), "post", "a", 0, 10)
		if err != nil || len(list) != 2 {
			t.Fatalf("posts %v, %v", list, err)
		}
		for range 2 { // In the second round the post is already removed, which is no error.
			if err := w.e.Outbox().SettlePost(t.Context(), "ns", list[0].ID, 0, ""); err != nil {
				t.Fatal(err)
			}
		}
		wantPosts(t, w, first.ID)
		w.act() // The outbox executes actions but not posts.
		wantPosts(t, w, second.ID, `"finished SUCCEEDED"`)
		if err := w.e.Outbox().SettlePost(t.Context(), "ns", list[1].ID, 7, "no answer"); err != nil {
			t.Fatal(err)
		}
		wantPosts(t, w, second.ID)
		dead := w.deadLetters()
		if len(dead) != 1 || dead[0].ID != list[1].ID || dead[0].Handler != "post/a" || dead[0].Attempts != 7 || dead[0].Error != "no answer" {
			t.Fatalf("dead letters %+v", dead)
		}
		clear(p.woken)
		if _, err := w.e.Outbox().RetryDeadLetter(t.Context(), operator, dead[0].ID); err != nil {
			t.Fatal(err)
		}
		w.act()
		wantPosts(t, w, second.ID, `"finished SUCCEEDED"`)
		if p.woken["a"] != 1 || len(w.deadLetters()) != 0 {
			t.Errorf("woken %v, dead %v", p.woken, w.deadLetters())
		}
		if err := w.e.Outbox().KeepQueues(t.Context(), "post", []string{"a"}); err != nil {
			t.Fatal(err)
		}
		wantPosts(t, w, second.ID, `"finished SUCCEEDED"`)
		dead = w.deadLetters()
		if len(dead) != 2 || dead[0].Handler != "post/b" || !strings.Contains(dead[0].Error, "configured") {
			t.Errorf("dead letters %+v", dead)
		}
		left, err := w.store.Actions(t.Context(), store.ActionQuery{State: store.ActionPending})
		if err != nil || len(left) != 1 {
			t.Errorf("left %v, %v", left, err)
		}
	})
}

// TestPostsOfACopyAreHeld checks that the posts of a copied store are not delivered, because they belong to the original.
func TestPostsOfACopyAreHeld(t *testing.T) {
	p := &postman{woken: map[string]int{}}
	inBubble(t, []tool.Tool{asks("ask", tool.Ticket{})}, notified(p), func(t *testing.T, w *world) {
		asked := w.do(spec("ask", ""))
		w.store.SetMoved(true)
		w.crash()
		wantPosts(t, w, asked.ID)
		if _, _, err := w.e.Release(t.Context(), operator, call.HeldSelector{All: true}, false, ""); err != nil {
			t.Fatal(err)
		}
		wantPosts(t, w, asked.ID, `"suspended SUSPENDED"`)
	})
}
