package crash_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc/codes"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// asking is a request about a question. The test models a question as a register that can be written only once. The register is empty until
// a decision wins. wanted is the decision that the request sends; an empty wanted means that the request only reads.
type asking struct{ question, wanted string }

// reply is the daemon's answer: the winning decision, or empty while the question is open. unknown means that the daemon died before it
// answered.
type reply struct {
	winner  string
	unknown bool
}

// onceModel returns the reference model of a write-once register, for package porcupine: the first decision wins, and every later read
// returns it.
func onceModel() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byQuestion := map[string][]porcupine.Operation{}
			for _, op := range history {
				q := op.Input.(asking).question
				byQuestion[q] = append(byQuestion[q], op)
			}
			var parts [][]porcupine.Operation
			for _, part := range byQuestion {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() any { return "" },
		Step: func(state, input, output any) (bool, any) {
			winner, in, out := state.(string), input.(asking), output.(reply)
			if winner == "" {
				winner = in.wanted
			}
			return out.unknown || out.winner == winner, winner
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
	}
}

// A history is the list of requests and answers, with the times of both.
type history struct {
	began time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

// note sends one request and records it. It reports whether the request was answered. It also records a decision without an answer, because
// the decision may still take effect at any later time. It does not record a read without an answer.
func (h *history) note(in asking, do func() reply) (answered bool) {
	from := int64(time.Since(h.began))
	out := do()
	until := int64(time.Since(h.began))
	if out.unknown {
		until = math.MaxInt64
	}
	if out.unknown && in.wanted == "" {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: len(h.ops), Input: in, Call: from, Output: out, Return: until})
	return !out.unknown
}

// TestLinearizable (T64, P2) lets many approvers decide and read the same questions while the real daemon is killed and restarted. There
// must be an order of the requests in which the first decision of each question wins. In this order, each request must take effect between
// its start and its answer.
func TestLinearizable(t *testing.T) {
	rounds := 10
	if os.Getenv("TOOLD_NIGHTLY") != "" {
		rounds = 150
	}
	newLoop(t, seed(t)).linearizable(t, rounds)
}

// linearizable runs rounds. Each round asks four questions that approvers answer over three lives of the daemon.
func (l *loop) linearizable(t *testing.T, rounds int) {
	t.Helper()
	seed := l.seed
	h := &history{began: time.Now()}
	asked, unknown := 0, 0
	for round := range rounds {
		var open []*item
		for life := range 3 { // The daemon of the last life is not killed.
			rng := rand.New(rand.NewPCG(seed, uint64(3*round+life)))
			point := ""
			if life < 2 && rng.IntN(2) == 0 {
				names := []string{"begin", "write", "commit", "committed", "before-commit", "after-commit"}
				point = fmt.Sprint(names[rng.IntN(len(names))], ":", 10+rng.IntN(25))
			}
			l.contend(t, h, &open, point, life == 2, rng)
		}
		for _, it := range open {
			if lines, err := l.traces(it); err != nil || len(lines) > 1 {
				t.Errorf("round %d: %s ran %d times, %v", round, it.ID, len(lines), err)
			}
		}
		asked += len(open)
	}
	for _, op := range h.ops {
		if op.Output.(reply).unknown {
			unknown++
		}
	}
	result := porcupine.CheckOperationsTimeout(onceModel(), h.ops, time.Minute)
	if result != porcupine.Ok {
		t.Errorf("%d operations on %d questions: %v; seed %d", len(h.ops), asked, result, seed)
	}
	for _, v := range l.led.Broken() {
		t.Error(v)
	}
	t.Logf("ran: linearizable decisions: %d operations on %d questions, %d without an answer, %d kills; seed %d", len(h.ops), asked, unknown, 2*rounds, seed)
}

// contend lets approvers answer all questions concurrently until the daemon dies or every question is decided.
func (l *loop) contend(t *testing.T, h *history, open *[]*item, point string, last bool, rng *rand.Rand) {
	t.Helper()
	l.withDaemon(t, point, func(life *life, _ *rand.Rand) {
		if len(*open) == 0 {
			for range 4 {
				it := l.one("gated")
				if life.begun(it) == nil {
					if q, _ := it.Waiting(); q != nil {
						*open = append(*open, it)
					}
				}
			}
		}
		if point == "" && !last {
			defer time.AfterFunc(time.Duration(rng.IntN(60))*time.Millisecond, life.d.kill).Stop()
		}
		var crew sync.WaitGroup
		for n, it := range *open {
			for person := range 4 {
				own := rand.New(rand.NewPCG(rng.Uint64(), 1))
				crew.Go(func() { life.insist(h, it, fmt.Sprintf("decision-%s-%d-%d", it.ID, n, person), own) })
			}
		}
		crew.Wait()
	})
}

// insist reads a question and answers it, up to three times. It stops when the daemon is gone.
func (l *life) insist(h *history, it *item, decision string, rng *rand.Rand) {
	q, _ := it.Waiting()
	if q == nil {
		return
	}
	look := func() bool {
		return h.note(asking{q.GetSuspensionId(), ""}, func() reply { return l.winner(it, q.GetSuspensionId()) })
	}
	for range 3 {
		if rng.IntN(3) > 0 && !look() {
			return
		}
		if !h.note(asking{q.GetSuspensionId(), decision}, func() reply { return l.insistOnce(it, q, decision) }) {
			return
		}
	}
	look()
}

// insistOnce sends a decision. Decisions with odd numbers decline.
func (l *life) insistOnce(it *item, q *tooldv1.Suspension, decision string) reply {
	d := &tooldv1.Decision{DecisionId: decision, Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: q.GetDigest()}
	if last := decision[len(decision)-1]; last%2 == 1 {
		d.Action, d.Reason = tooldv1.DecisionAction_DECISION_ACTION_CANCEL, "no"
	}
	ctx, cancel := as(l.ctx, approver)
	defer cancel()
	s, err := l.resume(ctx, q.GetSuspensionId(), d)
	if err == nil {
		_, err = s.next()
	}
	code, reason, more := refusal(err)
	switch {
	case err == nil:
		return reply{winner: decision}
	case code == codes.FailedPrecondition && reason == "ALREADY_DECIDED":
		return reply{winner: more["decision_id"]}
	case !l.lost("decision", err):
		it.Break("P2", "decision %s: %v", decision, err)
	}
	return reply{unknown: true}
}

// winner reads the decision that a call has for a question.
func (l *life) winner(it *item, question string) reply {
	ctx, cancel := as(context.WithoutCancel(l.ctx), it.kind.caller)
	defer cancel()
	answer, err := l.get(ctx, it.ID)
	if err != nil {
		if !l.lost("look", err) {
			it.Break("P2", "look: %v", err)
		}
		return reply{unknown: true}
	}
	for _, d := range answer.GetCall().GetDecisions() {
		if d.GetSuspensionId() == question {
			return reply{winner: d.GetDecisionId()}
		}
	}
	return reply{}
}

// TestOnceModel checks that the reference model rejects histories that are not linearizable.
func TestOnceModel(t *testing.T) {
	op := func(from, until int64, wanted, winner string) porcupine.Operation {
		return porcupine.Operation{Input: asking{"q", wanted}, Output: reply{winner: winner}, Call: from, Return: until}
	}
	lost := porcupine.Operation{Input: asking{"q", "a"}, Output: reply{unknown: true}, Call: 1, Return: math.MaxInt64}
	tests := []struct {
		name    string
		history []porcupine.Operation
		ok      bool
	}{
		{"the first wins", []porcupine.Operation{op(1, 2, "a", "a"), op(3, 4, "b", "a"), op(5, 6, "a", "a"), op(7, 8, "", "a")}, true},
		{"at once, either wins", []porcupine.Operation{op(1, 4, "a", "b"), op(2, 3, "b", "b")}, true},
		{"two win", []porcupine.Operation{op(1, 4, "a", "a"), op(2, 3, "b", "b")}, false},
		{"the later wins", []porcupine.Operation{op(1, 2, "a", "b"), op(3, 4, "b", "b")}, false},
		{"open again", []porcupine.Operation{op(1, 2, "a", "a"), op(3, 4, "", "")}, false},
		{"unanswered, it counts later", []porcupine.Operation{lost, op(2, 3, "", ""), op(4, 5, "b", "a")}, true},
		{"unanswered, it never counts", []porcupine.Operation{lost, op(2, 3, "b", "b"), op(4, 5, "", "b")}, true},
		{"unanswered, it counts and does not", []porcupine.Operation{lost, op(2, 3, "", "a"), op(4, 5, "b", "b")}, false},
	}
	for _, tt := range tests {
		if got := porcupine.CheckOperations(onceModel(), tt.history); got != tt.ok {
			t.Errorf("%s: linearizable = %t, want %t", tt.name, got, tt.ok)
		}
	}
}
