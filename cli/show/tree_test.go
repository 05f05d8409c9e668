package show_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func treeCall(id, parent, tool string, status tooldv1.CallStatus) *tooldv1.Call {
	c := &tooldv1.Call{CallId: id, Tool: tool, Status: status, Run: &tooldv1.Run{RunId: "r", ParentCallId: parent}, CreatedAt: timestamppb.New(time.Unix(1000, 0))}
	c.Description = &tooldv1.Description{Title: "Do " + id}
	return c
}

func TestTree(t *testing.T) {
	const (
		running   = tooldv1.CallStatus_CALL_STATUS_RUNNING
		succeeded = tooldv1.CallStatus_CALL_STATUS_SUCCEEDED
		suspended = tooldv1.CallStatus_CALL_STATUS_SUSPENDED
	)
	calls := []*tooldv1.Call{
		treeCall("a", "", "agent", running), treeCall("b", "a", "read", succeeded), treeCall("c", "", "bash", suspended),
		treeCall("d", "a", "grep", running), treeCall("e", "of another run", "x\x1b[2J", running),
	}
	got := strings.Join(show.View{Now: time.Unix(1090, 0)}.Tree("r", calls, map[string]string{"d": "3 of 9"}, 60), "\n")
	want := `run r  3 run, 1 wait, 1 succeeded
├─ ● agent  Do a
│  ├─ ✓ read  Do b
│  └─ ● grep  Do d  3 of 9
├─ ? bash  waits for a decision, 1m  Do c
└─ ● x\x1b[2J  Do e`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestTreeShowsAll checks that every call gets one line that fits, whatever parent it names.
func TestTreeShowsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, width := rapid.IntRange(0, 30).Draw(t, "calls"), rapid.IntRange(1, 100).Draw(t, "width")
		var calls []*tooldv1.Call
		for i := range n {
			calls = append(calls, treeCall(fmt.Sprint(i), fmt.Sprint(rapid.IntRange(-1, n).Draw(t, "parent")), strings.Repeat("宽t", rapid.IntRange(0, 9).Draw(t, "name")), tooldv1.CallStatus(rapid.IntRange(0, 8).Draw(t, "status"))))
		}
		lines := show.View{Now: time.Unix(2000, 0)}.Tree("r", calls, nil, width)
		if len(lines) != n+1 {
			t.Fatalf("%d lines of %d calls", len(lines), n)
		}
		for _, line := range lines {
			if show.Columns(line) > max(width, 2) {
				t.Fatalf("%q is wider than %d", line, width)
			}
		}
	})
}

// TestWrap checks that wrapping loses no text, and that each line closes its colours.
func TestWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := show.Text(rapid.StringOf(rapid.SampledFrom([]rune("ab 宽\n\u0301\x1b\tz"))).Draw(t, "text"))
		width := rapid.IntRange(2, 20).Draw(t, "width")
		lines := show.Wrap(text, width)
		for _, line := range lines {
			if show.Columns(line) > width {
				t.Fatalf("%q is wider than %d", line, width)
			}
		}
		bare := strings.NewReplacer("\n", "", "\t", "", " ", "")
		if got, want := bare.Replace(strings.Join(lines, "")), bare.Replace(text); got != want {
			t.Fatalf("%q became %q", want, got)
		}
	})
	got := fmt.Sprintf("%q", show.Wrap(show.View{Color: true}.Alarm("abcdef")+"gh", 4))
	if want := `["\x1b[31mabcd\x1b[0m" "\x1b[31mef\x1b[0mgh"]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
