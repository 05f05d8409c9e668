package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// prints returns a tool that prints the text to stdout.
func prints(text *string) tool.Tool {
	return made("prints", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return tool.Text("ok"), c.Output("stdout", []byte(*text))
	})
}

// TestT125ArtifactNames checks that artifacts and output streams cannot have a name that people could confuse with another name, or that is
// a path outside the call's folder.
func TestT125ArtifactNames(t *testing.T) {
	var refused []string
	strange := []string{"../../x", "a/../../b", "/etc/passwd", `..\x`, "a\u202egnp.exe", "a\u009b2J", "a\nb", "a\u200b", "\xff", strings.Repeat("x", 257)}
	names := tool.Func(tool.Descriptor{ID: "names", Effects: mutating}, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		for _, name := range strange {
			_, err := c.SaveArtifact(name, "text/plain", []byte("x"))
			if refusal, ok := errors.AsType[*tool.Error](errors.Join(err, c.Output(name, []byte("x")))); ok && refusal.Reason == "ARTIFACT_NAME" && !strings.ContainsAny(refusal.Message, "\u202e\u009b\n") {
				refused = append(refused, name)
			}
		}
		for _, name := range []string{"report.csv", "out/report 1.csv", "b\u00fcro.txt", "..."} {
			if _, err := c.SaveArtifact(name, "text/plain", []byte("x")); err != nil {
				return nil, err
			}
		}
		return tool.Text("done"), c.Output("stdout", []byte("x"))
	})
	inBubble(t, []tool.Tool{names}, nil, func(t *testing.T, w *world) {
		if c := w.do(spec("names", "")); c.Status != call.Succeeded {
			t.Errorf("plain names: %+v", c.Result)
		}
		if !slices.Equal(refused, strange) {
			t.Errorf("refused %q", refused)
		}
	})
}

// TestReadLines checks ReadLines against the split text: each range must have the same lines, whether counted from the beginning or from
// the end.
func TestReadLines(t *testing.T) {
	text := ""
	w := newWorld(t, []tool.Tool{prints(&text)}, nil)
	defer drain(w.e)
	rapid.Check(t, func(r *rapid.T) {
		line := rapid.StringMatching(`[a-c]{0,9}`)
		text = strings.Join(rapid.SliceOfN(line, 1, 60).Draw(r, "lines"), "\n") + rapid.SampledFrom([]string{"", "\n"}).Draw(r, "end")
		lines := strings.SplitAfter(text, "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		if text == "" {
			return // no output
		}
		c := w.do(spec("prints", ""))
		first := rapid.IntRange(1, 70).Draw(r, "first")
		count := rapid.IntRange(1, 70).Draw(r, "count")
		part, err := w.e.Artifacts().ReadLines(context.Background(), alice, c.ID, "stdout", int64(first), int64(count), 1<<20)
		if err != nil {
			r.Fatal(err)
		}
		want := lines[min(first-1, len(lines)):min(first-1+count, len(lines))]
		if string(part.Bytes) != strings.Join(want, "") || part.Lines != int64(len(want)) {
			r.Fatalf("lines %d+%d of %q: %q, %d lines, want %q", first, count, text, part.Bytes, part.Lines, want)
		}
		back := rapid.IntRange(1, 70).Draw(r, "back")
		tail, err := w.e.Artifacts().ReadLines(context.Background(), alice, c.ID, "stdout", int64(-back), int64(back), 1<<20)
		from := max(len(lines)-back, 0)
		if err != nil || string(tail.Bytes) != strings.Join(lines[from:], "") || tail.FirstLine != int64(from+1) || !tail.EOF {
			r.Fatalf("the last %d lines of %q: %q from line %d, %v", back, text, tail.Bytes, tail.FirstLine, err)
		}
		if end := first-1+count >= len(lines); part.EOF != end {
			r.Fatalf("lines %d+%d of %d: end %t", first, count, len(lines), part.EOF)
		}
	})
}

// TestReadLinesOfALongLine checks a line that is longer than the limit of a request. The request returns the beginning of the line. A
// request for the next line starts after the whole long line.
func TestReadLinesOfALongLine(t *testing.T) {
	text := "short\n" + strings.Repeat("x", 600_000) + "\nlast\n"
	inBubble(t, []tool.Tool{prints(&text)}, nil, func(t *testing.T, w *world) {
		c := w.do(spec("prints", ""))
		part, err := w.e.Artifacts().ReadLines(t.Context(), alice, c.ID, "stdout", 2, 2, 1000)
		if err != nil || len(part.Bytes) != 1000 || part.Lines != 1 || part.Offset != 6 || part.EOF {
			t.Fatalf("a long line: %d bytes, %+v, %v", len(part.Bytes), part.Lines, err)
		}
		part, err = w.e.Artifacts().ReadLines(t.Context(), alice, c.ID, "stdout", 3, 2, 1000)
		if err != nil || string(part.Bytes) != "last\n" || !part.EOF {
			t.Fatalf("behind it: %q, %v", part.Bytes, err)
		}
		_, err = w.e.Artifacts().ReadLines(t.Context(), alice, c.ID, "stdout", 0, 1, 1000)
		wantRefusal(t, err, call.InvalidArgument, "INVALID_FIELD")
	})
}

// TestSearchArtifact checks a sequence of searches, each starting where the previous one ended. They must find each matching line once,
// with its line number.
func TestSearchArtifact(t *testing.T) {
	var b strings.Builder
	var want []int64
	for i := int64(1); i <= 30_000; i++ {
		switch {
		case i == 5:
			b.WriteString(strings.Repeat("y", 300_000) + " needle far out " + strings.Repeat("z", 100_000) + "\n")
		case i%1000 == 0:
			fmt.Fprintf(&b, "line %d has a Needle\n", i)
		default:
			fmt.Fprintf(&b, "line %d\n", i)
			continue
		}
		want = append(want, i)
	}
	text := b.String()
	inBubble(t, []tool.Tool{prints(&text)}, nil, func(t *testing.T, w *world) {
		c := w.do(spec("prints", ""))
		for _, q := range []call.Search{
			{Pattern: "needle", IgnoreCase: true, Limit: 4},
			{Pattern: "[nN]eed+le", Regexp: true},
		} {
			var got []int64
			for {
				found, err := w.e.Artifacts().SearchArtifact(t.Context(), alice, c.ID, "stdout", q)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range found.Matches {
					got = append(got, m.Line)
					if !strings.EqualFold(text[m.Offset:m.Offset+6], "needle") || !strings.Contains(strings.ToLower(m.Text), "needle") {
						t.Errorf("line %d: match at %d is %q", m.Line, m.Offset, text[m.Offset:m.Offset+6])
					}
					if m.Cut != (m.Line == 5) {
						t.Errorf("line %d is cut: %t", m.Line, m.Cut)
					}
				}
				if found.EOF {
					break
				}
				if found.Next <= q.After {
					t.Fatalf("search after %d ends at %d", q.After, found.Next)
				}
				q.After = found.Next
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%+v finds lines %v, want %v", q, got, want)
			}
		}
		for _, bad := range []call.Search{{}, {Pattern: "(", Regexp: true}, {Pattern: strings.Repeat("x", 2000)}, {Pattern: "x", Limit: -1}} {
			_, err := w.e.Artifacts().SearchArtifact(t.Context(), alice, c.ID, "stdout", bad)
			wantRefusal(t, err, call.InvalidArgument, "INVALID_FIELD")
		}
		_, err := w.e.Artifacts().SearchArtifact(t.Context(), alice, c.ID, "stdout", call.Search{Pattern: "x", After: int64(len(text)) + 1})
		wantRefusal(t, err, call.OutOfRange, "OFFSET_OUT_OF_RANGE")
	})
}

// TestT15SearchOfAnArtifactEnds checks that a pattern is refused when it would take minutes for one line. Even a matcher with linear time
// is too slow for such a pattern.
func TestT15SearchOfAnArtifactEnds(t *testing.T) {
	text := strings.Repeat("a", 60_000)
	inBubble(t, []tool.Tool{prints(&text)}, nil, func(t *testing.T, w *world) {
		c := w.do(spec("prints", ""))
		_, err := w.e.Artifacts().SearchArtifact(t.Context(), alice, c.ID, "stdout", call.Search{Pattern: strings.Repeat(".{0,1000}", 100) + "x", Regexp: true})
		wantRefusal(t, err, call.InvalidArgument, "INVALID_FIELD")
	})
}

// TestArtifactsAreTheConversationsOwn checks which calls can read the artifact of a shortened result. A tool can open the artifact only for
// the same caller and in the same conversation. For any other call the artifact does not exist.
func TestArtifactsAreTheConversationsOwn(t *testing.T) {
	long := strings.Repeat("all of it\n", 10_000)
	prints := made("says", mutating, func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text(long), nil })
	inBubble(t, []tool.Tool{prints}, nil, func(t *testing.T, w *world) {
		s := spec("says", "")
		s.OnBehalfOf = "uma"
		c := w.do(s)
		_, rest, ok := strings.Cut(c.Result.Message, "the full text is ")
		handle, _, _ := strings.Cut(rest, " ")
		id, name, err := tool.ParseArtifactHandle(handle)
		if !ok || err != nil {
			t.Fatalf("no handle in %.300q: %v", c.Result.Message, err)
		}
		reader := func(change func(*tool.Call)) *tool.Call {
			r := &tool.Call{Namespace: "ns", Caller: alice, OnBehalfOf: "uma", Run: tool.Run{ID: "another", Thread: "thread-1"}}
			change(r)
			return r
		}
		for what, change := range map[string]func(*tool.Call){
			"the same thread": func(*tool.Call) {},
			"its child":       func(r *tool.Call) { r.Run = tool.Run{Thread: "child", ParentThread: "thread-1"} },
		} {
			a, err := w.e.Artifacts().OpenArtifact(t.Context(), reader(change), id, name)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			b, err := io.ReadAll(io.NewSectionReader(a, 0, a.Size))
			if err != nil || string(b) != long {
				t.Errorf("%s reads %d bytes, %v", what, len(b), err)
			}
		}
		for what, change := range map[string]func(*tool.Call){
			"another caller":     func(r *tool.Call) { r.Caller.Subject = "mallory" },
			"an operator":        func(r *tool.Call) { r.Caller = carol },
			"another thread":     func(r *tool.Call) { r.Run.Thread = "thread-2" },
			"no thread":          func(r *tool.Call) { r.Run.Thread = "" },
			"for another person": func(r *tool.Call) { r.OnBehalfOf = "vic" },
			"another namespace":  func(r *tool.Call) { r.Namespace, r.Caller = "other", eve },
		} {
			_, err := w.e.Artifacts().OpenArtifact(t.Context(), reader(change), id, name)
			wantRefusal(t, err, call.NotFound, "ARTIFACT_NOT_FOUND")
			if other := func() error {
				_, err := w.e.Artifacts().OpenArtifact(t.Context(), reader(change), "no-such-call-at-all", name)
				return err
			}(); strings.ReplaceAll(other.Error(), "no-such-call-at-all", id) != err.Error() {
				t.Errorf("%s learns that the call is there: %q", what, err)
			}
		}
		// Simulates a store that was moved to another machine without its spool.
		if err := w.store.Spool().Remove(call.Key{Namespace: alice.Namespace, ID: id}); err != nil {
			t.Fatal(err)
		}
		_, err = w.e.Artifacts().OpenArtifact(t.Context(), reader(func(*tool.Call) {}), id, name)
		wantRefusal(t, err, call.NotFound, "ARTIFACT_ELSEWHERE")
	})
}
