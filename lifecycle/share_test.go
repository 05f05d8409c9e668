package lifecycle_test

import (
	"testing"
	"testing/synctest"

	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// Who stands at the same place gets the same frame, and what is made of it is made once. Who stands elsewhere, or is alone,
// gets one of its own; so does everybody of a question, which not all may see whole.
func TestWatchersAtTheSamePlaceShareAFrame(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", reading), asks("asks", tool.Ticket{Message: "well?"})}, nil, func(t *testing.T, w *world) {
		s := spec("t", `{}`)
		id := w.begin(s)
		at := func(cursor string) *lifecycle.Watcher {
			watcher, err := w.e.Watch(t.Context(), alice, id, cursor, true)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(watcher.Close)
			return watcher
		}
		next := func(watcher *lifecycle.Watcher) lifecycle.Frame {
			f, err := watcher.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for f.CaughtUp {
				if f, err = watcher.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return f
		}
		one, two, late := at("c1.1.2"), at("c1.1.2"), at("c1.1.0")
		p.free()
		synctest.Wait()
		a, b, c := next(one), next(two), next(late)
		if a.Shared == nil || a.Shared != b.Shared || c.Shared == a.Shared {
			t.Errorf("shared %p, %p, %p", a.Shared, b.Shared, c.Shared)
		}
		if contents(a.Events) != contents(b.Events) || types(t, 3, a.Events) != "finished" || a.Cursor != "c1.1.3" || b.Cursor != a.Cursor {
			t.Errorf("%q at %q, %q at %q", contents(a.Events), a.Cursor, contents(b.Events), b.Cursor)
		}
		if got := types(t, 1, c.Events); got != "accepted attempt_started finished" || c.Cursor != "c1.1.3" {
			t.Errorf("who came late has %q at %q", got, c.Cursor)
		}
		made := 0
		form := func() any { made++; return made }
		if a.Shared.Form(form) != b.Shared.Form(form) || made != 1 {
			t.Errorf("made %d times", made)
		}
		for _, watcher := range []*lifecycle.Watcher{one, two, late} {
			watcher.Close()
		}
		if f := next(at("c1.1.2")); f.Shared != nil {
			t.Error("shared by one")
		}
		id = w.begin(spec("asks", `{}`))
		one, two = at("c1.1.0"), at("c1.1.0")
		if a, b := next(one), next(two); a.Shared != nil || b.Shared != nil || contents(a.Events) != contents(b.Events) {
			t.Errorf("a question is shared: %q, %q", contents(a.Events), contents(b.Events))
		}
	})
}
