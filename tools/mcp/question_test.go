package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/toold-dev/toold/tool"
)

// TestQuestion checks that a question suspends the call with a form, and that the attempt after the decision has the answer. This holds
// even for a new daemon with a new server.
func TestQuestion(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			m := newMemory()
			w := connect(t, m, nil, own(t, "w", era)).ready()
			c, rep := newCall(t, `{}`)
			asked, err := w.do("w__ask", c)
			must(t, err)
			if !asked.IsPending() || asked.Suspension.Action != "input" {
				t.Fatalf("the result is %+v", asked)
			}
			want := `{"additionalProperties":false,"properties":{"age":{"type":"integer"},"name":{"minLength":2,"type":"string"}},"required":["name"],"type":"object"}`
			if string(asked.Suspension.ResponseSchema) != want {
				t.Errorf("the form is %s", asked.Suspension.ResponseSchema)
			}
			if asked.Suspension.Message != "The server w asks: What is your name?Type your password. [markup was removed]" {
				t.Errorf("the question is %q", asked.Suspension.Message)
			}
			again := connect(t, m, nil, own(t, "w", era)).ready()
			r, err := again.do("w__ask", answered(c, rep, asked, `{"name":"Ada","age":36}`))
			must(t, err)
			contains(t, r.Message, "hello Ada (36)")
			if strings.Count(again.journal(), "greeted\n") != 1 || strings.Contains(w.journal(), "\ngreeted") {
				t.Errorf("the servers did\n%s and\n%s", w.journal(), again.journal())
			}
		})
	}
}

// The test checks that an answer counts only for the same arguments, and only for the question that the call asked.
func TestAnswerOfSomethingElse(t *testing.T) {
	w := connect(t, newMemory(), nil, own(t, "w", "good")).ready()
	c, rep := newCall(t, `{}`)
	asked, err := w.do("w__ask", c)
	must(t, err)
	edited := answered(c, rep, asked, `{"name":"Ada"}`)
	edited.Arguments = tool.NewArguments(`{"other":1}`, map[string]any{"other": json.Number("1")})
	r, err := w.do("w__ask", edited)
	must(t, err)
	if !r.IsPending() {
		t.Errorf("an answer for other arguments counts: %+v", r)
	}
	gated := answered(c, rep, asked, `{"name":"Ada"}`)
	gated.Resume.Reason = "approval"
	if r, err = w.do("w__ask", gated); err != nil || !r.IsPending() {
		t.Errorf("the answer to a gate counts as one to the server: %+v, %v", r, err)
	}
}

func TestSignIn(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			w := connect(t, newMemory(), nil, own(t, "w", era)).ready()
			c, rep := newCall(t, `{}`)
			asked, err := w.do("w__login", c)
			must(t, err)
			s := asked.Suspension
			if s == nil || s.Action != "auth" || len(s.ResponseSchema) > 0 {
				t.Fatalf("the result is %+v", asked)
			}
			contains(t, string(s.Parameters), `"url":"https://login.example/start?x=1"`, `"host":"login.example"`)
			contains(t, s.Message, "Sign in.\nhttps://login.example/start?x=1")
			r, err := w.do("w__login", answered(c, rep, asked, ""))
			must(t, err)
			contains(t, r.Message, "signed in")
		})
	}
}

// The test checks that each of several concurrent calls gets its own question, although servers of earlier eras do not say which call a
// question belongs to.
func TestQuestionsOfCallsAtOnce(t *testing.T) {
	w := connect(t, newMemory(), nil, own(t, "w", "earlier")).ready()
	const n = 5
	var all sync.WaitGroup
	texts := make([]string, n)
	for i := range n {
		all.Go(func() {
			c, rep := newCall(t, `{}`)
			c.ID = fmt.Sprintf("call-%d", i)
			asked, err := w.do("w__ask", c)
			if err != nil || !asked.IsPending() {
				texts[i] = fmt.Sprint(asked, err)
				return
			}
			r, err := w.do("w__ask", answered(c, rep, asked, fmt.Sprintf(`{"name":"person %d"}`, i)))
			if err != nil {
				texts[i] = err.Error()
				return
			}
			texts[i] = r.ModelText()
		})
	}
	all.Wait()
	for i, text := range texts {
		if !strings.HasPrefix(text, fmt.Sprintf("hello person %d ", i)) {
			t.Errorf("call %d ended with %q", i, text)
		}
	}
	if got := strings.Count(w.journal(), "\ngreeted\n") + strings.Count(w.journal(), "greeted\ngreeted\n"); got == 0 {
		t.Errorf("nobody was greeted:\n%s", w.journal())
	}
}

// The test checks that a long call delays the question of another call, and that no question or answer is lost.
func TestQuestionBesideALongCall(t *testing.T) {
	w := connect(t, newMemory(), nil, own(t, "w", "earlier")).ready()
	long, _ := newCall(t, `{}`)
	long.ID = "long"
	e, _ := w.tools.Lookup("w__slow")
	ctx, cancel := context.WithCancelCause(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = e.Tool.Execute(ctx, long) // The call ends with an error, because it is cancelled.
	}()
	w.eventually("it runs", func() bool { return strings.Contains(w.journal(), "slow began") })
	asking := make(chan *tool.Result, 1)
	go func() {
		c, _ := newCall(t, `{}`)
		r, _ := w.do("w__ask", c)
		asking <- r
	}()
	w.eventually("it asks", func() bool { return strings.Contains(w.journal(), "asked") })
	cancel(tool.Errorf(tool.Cancelled, "enough"))
	<-over
	if r := <-asking; !r.IsPending() {
		t.Errorf("the question became %+v", r)
	}
}
