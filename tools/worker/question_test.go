package worker_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker"
	"github.com/toold-dev/toold/tools/worker/link"
)

type asked struct {
	id, kind string
	call     *tool.Call
	within   time.Duration
}

func (l *line) question(t *testing.T) asked {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.questions) == 0 {
		t.Fatal("nothing was asked")
	}
	return l.questions[len(l.questions)-1]
}

func (l *line) asks() int { synctest.Wait(); l.mu.Lock(); defer l.mu.Unlock(); return len(l.questions) }

var strict = tool.Effects{Mutability: tool.Mutating, Safety: tool.SafetyDestructive, Tier: tool.Escalate}

// examining returns an offer with a tool that can validate, assess and describe calls.
func examining() link.Offer {
	o := offer("a")
	o.Tools[0].Validates, o.Tools[0].Assesses, o.Tools[0].Describes = true, true, true
	o.Tools[0].Descriptor.Effects = strict
	return o
}

// examined is what a question about a call returned, and how long it took.
type examined struct {
	about string
	err   error
	after time.Duration
}

// examine calls Validate, Assess and Describe of the tool for one call.
func (w *world) examine() (validated, assessed, described <-chan examined) {
	t, began := w.registry.get("a"), time.Now()
	one := func(f func() (any, error)) <-chan examined {
		c := make(chan examined, 1)
		go func() {
			v, err := f()
			c <- examined{fmt.Sprint(v), err, time.Since(began)}
		}()
		return c
	}
	validated = one(func() (any, error) { return "", t.(tool.Validator).Validate(tool.Arguments{}) })
	assessed = one(func() (any, error) { return t.(tool.Assessor).Assess(tool.Arguments{}), nil })
	described = one(func() (any, error) {
		d, err := t.(tool.Describer).Describe(w.t.Context(), &tool.Call{ID: "c", Tool: "a", Run: tool.Run{Labels: map[string]string{"worker.disk": "d1"}}})
		return d.Title, err
	})
	return validated, assessed, described
}

// TestQuestions checks that a worker gets the questions that it offered to answer, and that its answers reach the engine.
func TestQuestions(t *testing.T) {
	mild := tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe}
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		o := examining()
		o.Labels, o.Limit = map[string]string{"disk": "d1"}, 1
		s, l, _ := w.connect(o)
		w.call(t.Context(), "a", nil) // The call uses the worker's only slot. Questions need no slot.
		validated, assessed, described := w.examine()
		synctest.Wait()
		for _, q := range l.questions {
			switch q.kind {
			case worker.Validate:
				s.Answer(q.id, link.Answer{Err: tool.Errorf(tool.InvalidArguments, "no such file")})
				s.Answer(q.id, link.Answer{}) // A second answer is ignored.
			case worker.Assess:
				s.Answer(q.id, link.Answer{Effects: &mild})
			case worker.Describe:
				if q.call.ID != "c" {
					t.Errorf("asked to describe %v", q.call)
				}
				s.Answer(q.id, link.Answer{Description: &tool.Description{Title: "Paints it"}})
			}
			if q.within <= 0 || q.within > time.Second || q.call.Tool != "a" {
				t.Errorf("asked within %v about %v", q.within, q.call)
			}
		}
		if v, a, d := <-validated, <-assessed, <-described; v.err == nil || v.err.Error() != "no such file" || a.about != fmt.Sprint(mild) || d.about != "Paints it" {
			t.Errorf("received %v, %v, %v", v, a, d)
		}
	})
}

// TestQuestionsUnanswered checks that without an answer the effects do not become milder, and that each method returns soon.
func TestQuestionsUnanswered(t *testing.T) {
	for name, answer := range map[string]func(*worker.Session, *line){
		"silence": func(*worker.Session, *line) {},
		"an answer to something else": func(s *worker.Session, l *line) {
			for _, q := range l.questions {
				s.Answer(q.id+"x", link.Answer{Effects: &tool.Effects{Tier: tool.Observe}})
			}
		},
	} {
		inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
			o := examining()
			o.Labels = map[string]string{"disk": "d1"}
			s, l, _ := w.connect(o)
			validated, assessed, described := w.examine()
			synctest.Wait()
			answer(s, l)
			v, a, d := <-validated, <-assessed, <-described
			if e := tool.AsError(v.err); e.Code != tool.Upstream || e.Reason != "NO_ANSWER" || !e.Retryable || v.after > time.Second {
				t.Errorf("%s: validated %v", name, v)
			}
			if a.about != fmt.Sprint(strict) || a.after > time.Second || d.err == nil {
				t.Errorf("%s: assessed %v, described %v", name, a, d)
			}
			s.Answer(l.question(t).id, link.Answer{}) // This answer comes too late and is ignored.
		})
	}
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) { // The worker answers, but each answer is empty.
		o := examining()
		o.Labels = map[string]string{"disk": "d1"}
		s, l, _ := w.connect(o)
		validated, assessed, described := w.examine()
		synctest.Wait()
		for _, q := range l.questions {
			s.Answer(q.id, link.Answer{})
		}
		if v, a, d := <-validated, <-assessed, <-described; v.err != nil || a.about != fmt.Sprint(strict) || d.err == nil {
			t.Errorf("empty: %v, %v, %v", v, a, d)
		}
	})
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) { // A worker that did not get the question answers it. The answer is ignored.
		s, l, _ := w.connect(examining())
		thief, _, _ := w.connect(offer("b"))
		done := make(chan error, 1)
		go func() { done <- w.registry.get("a").(tool.Validator).Validate(tool.Arguments{}) }()
		q := l.question(t)
		thief.Answer(q.id, link.Answer{})
		s.Answer(q.id, link.Answer{Err: errors.New("wrong")})
		if err := <-done; err == nil {
			t.Error("T61: the thief's answer counts")
		}
	})
}

// The test checks that when a worker disconnects, another worker is asked. When there is no other worker, Validate accepts the arguments,
// because the worker that executes the call checks them.
func TestQuestionsOfWorkersThatGo(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		s1, l1, _ := w.connect(examining())
		s2, l2, _ := w.connect(examining())
		began := time.Now()
		done := make(chan error, 1)
		go func() { done <- w.registry.get("a").(tool.Validator).Validate(tool.Arguments{}) }()
		first, heir := s1, l2
		if l1.asks() == 0 {
			first, heir = s2, l1
		}
		if l1.asks()+l2.asks() != 1 {
			t.Error("both were asked")
		}
		first.Close(false)
		q := heir.question(t)
		map[*line]*worker.Session{l1: s1, l2: s2}[heir].Answer(q.id, link.Answer{Err: errors.New("wrong")})
		if err := <-done; err == nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		s, l, _ := w.connect(examining())
		s.Drain()
		began := time.Now()
		validated, assessed, described := w.examine()
		v, a, d := <-validated, <-assessed, <-described
		if v.err != nil || a.about != fmt.Sprint(strict) || d.err == nil || l.asks() > 0 || time.Since(began) > 0 {
			t.Errorf("the only one drains: %v, %v, %v after %v", v, a, d, time.Since(began))
		}
	})
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) { // This worker did not offer to answer questions, so it gets none.
		_, l, _ := w.connect(offer("a"))
		validated, assessed, described := w.examine()
		if v, a, d := <-validated, <-assessed, <-described; v.err != nil || a.about != fmt.Sprint(tool.Effects{}) || d.err != nil || l.asks() > 0 {
			t.Errorf("nothing was offered: %v, %v, %v", v, a, d)
		}
	})
}

// The test checks that a worker that reconnects gets its unanswered questions again over the new connection.
func TestQuestionsOfWorkersThatComeBack(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		_, l, first := w.connect(examining())
		done := make(chan error, 1)
		go func() { done <- w.registry.get("a").(tool.Validator).Validate(tool.Arguments{}) }()
		l.question(t)
		o, again := examining(), &line{}
		o.Previous = first.ID
		s, _, ready, err := w.hub.Connect(alice, o, again)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(false)
		synctest.Wait() // Waits until the old connection has ended. The response to the new offer is not sent yet.
		ready()
		s.Answer(again.question(t).id, link.Answer{Err: errors.New("wrong")})
		if err := <-done; err == nil {
			t.Error("nobody was asked, and the arguments count as right")
		}
		s.Drain()
		if err := w.registry.get("a").(tool.Validator).Validate(tool.Arguments{}); err != nil || again.asks() != 1 {
			t.Errorf("one that drains is asked: %v", err)
		}
	})
}

// The test checks that a worker has at most maxQuestions open questions.
func TestQuestionsAreBounded(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		_, l, _ := w.connect(examining())
		v := w.registry.get("a").(tool.Validator)
		reasons := make(chan string, 1100)
		for range 1100 {
			go func() { reasons <- tool.AsError(v.Validate(tool.Arguments{})).Reason }()
		}
		if n := l.asks(); n != 1024 {
			t.Errorf("%d were asked at once", n)
		}
		for range 1100 {
			if r := <-reasons; r != "NO_ANSWER" {
				t.Errorf("reason %q", r)
			}
		}
	})
}

// The test checks that workers that can answer different questions do not serve a tool together.
func TestDefinitionOfQuestions(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		w.connect(examining())
		o := examining()
		o.Tools[0].Assesses = false
		if _, _, a := w.connect(o); !slices.ContainsFunc(a.Refused, func(r link.Refusal) bool { return r.Reason == link.OtherDefinition }) {
			t.Errorf("refused %v", a.Refused)
		}
	})
}
