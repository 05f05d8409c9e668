package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/sdk/go/worker"
)

// addPaint adds the tool "paints" to a worker. The tool answers questions about its calls: it validates, assesses and describes them.
func addPaint(w *worker.Worker) {
	type paint struct {
		Colour string `json:"colour"`
	}
	colourOf := func(c *worker.Call) (string, error) {
		var in paint
		err := c.Decode(&in)
		if in.Colour == "ghost" {
			panic("boo")
		}
		return in.Colour, err
	}
	mild := &tooldv1.Assessment{Mutability: tooldv1.Mutability_MUTABILITY_READ_ONLY, Safety: tooldv1.Safety_SAFETY_READ_ONLY, Tier: tooldv1.Tier_TIER_OBSERVE, Resources: []*tooldv1.Resource{{Kind: "wall"}}}
	var seen sync.Map
	worker.Add(w, worker.Tool{
		ID: "paints", Mildest: mild,
		Validate: func(_ context.Context, c *worker.Call) error {
			var in paint
			if err := c.Decode(&in); err != nil {
				return err
			}
			if in.Colour == "riddle" {
				return worker.Ask("which?", nil)
			}
			if in.Colour == "mud" {
				return worker.Fail("NO_PAINT", "there is no paint of mud")
			}
			if _, before := seen.LoadOrStore(in.Colour, true); before && strings.HasPrefix(in.Colour, "once") {
				return worker.Fail("USED_UP", "it is used up")
			}
			return nil
		},
		Assess: func(_ context.Context, c *worker.Call) (*tooldv1.Assessment, error) {
			colour, err := colourOf(c)
			if colour == "none" {
				return &tooldv1.Assessment{Mutability: mild.GetMutability(), Safety: mild.GetSafety(), Tier: mild.GetTier()}, err
			}
			return &tooldv1.Assessment{Resources: []*tooldv1.Resource{{Kind: "wall", Id: colour}}}, err
		},
		Describe: func(_ context.Context, c *worker.Call) (*tooldv1.Description, error) {
			colour, err := colourOf(c)
			return &tooldv1.Description{Title: "Paint it " + colour, Notes: []string{"it dries in an hour"}, Basis: "wall-1"}, err
		},
	}, func(_ context.Context, c *worker.Call, in paint) (string, error) {
		return "painted " + in.Colour + " over " + c.GetResume().GetBasis(), nil
	})
}

// described returns a one-line summary of DescribeCall for a call of the tool "paints".
func (p *proc) described(colour string) string {
	r, err := p.calls.DescribeCall(p.t.Context(), &tooldv1.DescribeCallRequest{Spec: &tooldv1.CallSpec{Tool: "paints", Arguments: fmt.Sprintf(`{"colour":%q}`, colour)}})
	must(p.t, err)
	if !r.GetValid() {
		return fmt.Sprintf("%s %s: %s", r.GetError().GetCode(), r.GetError().GetReason(), r.GetError().GetMessage())
	}
	d := r.GetDescription()
	uses := ""
	for _, u := range r.GetAssessment().GetResources() {
		uses += " uses " + u.GetKind() + " " + u.GetId()
	}
	return fmt.Sprintf("%s %s %s%s: %s %q degraded %t", r.GetOutcome(), r.GetAssessment().GetMutability(), r.GetAssessment().GetTier(), uses, d.GetTitle(), d.GetNotes(), d.GetDegraded())
}

// A worker validates, assesses and describes its calls.
func TestWorkerQuestions(t *testing.T) { inEach(t, workerQuestions) }

func workerQuestions(t *testing.T, l language) {
	p := newSite(t, "").start("--workers-lease", "5s")
	p.worker(l, p.ready.TCP, p.token())
	p.sees("paints", true)
	const asks = "VERDICT_ACTION_SUSPEND MUTABILITY_MUTATING TIER_CONFIRM"
	for colour, want := range map[string]string{
		"mud":   "ERROR_CODE_INVALID_ARGUMENTS NO_PAINT: there is no paint of mud",
		"none":  `VERDICT_ACTION_ALLOW MUTABILITY_READ_ONLY TIER_OBSERVE: Paint it none ["it dries in an hour"] degraded false`,
		"red":   asks + ` uses wall red: Paint it red ["it dries in an hour"] degraded false`,
		"ghost": asks + `: paints [] degraded true`,
	} {
		var got string // Try again: on a busy machine, the worker's answer may miss its time limit.
		eventually(t, fmt.Sprintf("%s is %s", colour, want), func() bool {
			if now := p.described(colour); now != got {
				got = now
				fmt.Fprintf(p.log, "described %s: %s\n", colour, got)
			}
			return got == want
		})
	}
	if got := p.described("riddle"); !strings.HasPrefix(got, "ERROR_CODE_") { // DescribeCall returns an error, because the daemon cannot ask a user at this time.
		t.Errorf("arguments of which a question is asked: %s", got)
	}
	tries := 0
	painted := func(colour string) *tooldv1.Call { // painted runs a call of the tool "paints" to its end. It tries again if the worker was too slow to answer questions about the call.
		tries++
		id := fmt.Sprintf("painted-%s-%08d", colour, tries)
		c := p.end(id, "paints", fmt.Sprintf(`{"colour":"%s-%d"}`, colour, tries))
		if c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUSPENDED {
			return c
		}
		resumed, err := p.calls.ResumeTool(t.Context(), &tooldv1.ResumeToolRequest{SuspensionId: c.GetSuspension().GetSuspensionId(), Decision: &tooldv1.Decision{
			DecisionId: "decision-" + id, Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: c.GetSuspension().GetDigest(),
		}})
		for err == nil {
			_, err = resumed.Recv()
		}
		if !errors.Is(err, io.EOF) {
			t.Fatalf("approved: %v\n%s", err, p.log)
		}
		return p.get(id)
	}
	eventually(t, "what was described is painted", func() bool {
		c := painted("red")
		return c.GetResult().GetMessage() == fmt.Sprintf("painted red-%d over wall-1", tries)
	})
	eventually(t, "what is used up since it was asked for is not painted", func() bool {
		e := painted("once").GetResult().GetError()
		return e.GetCode() == tooldv1.ErrorCode_ERROR_CODE_INVALID_ARGUMENTS && e.GetReason() == "USED_UP" && e.GetAborted()
	})
}

// A worker's answer is cut to the limits of descriptions, and cannot allow more than the tool's definition.
func TestWorkerAnswersAreBounded(t *testing.T) {
	p := newSite(t, "").start("--workers-lease", "20s")
	stream, err := tooldv1.NewWorkerServiceClient(p.conn).Connect(t.Context())
	must(t, err)
	say(t, stream, &tooldv1.ConnectRequest_Register{Register: &tooldv1.WorkerRegister{Pool: "hostile", Tools: []*tooldv1.WorkerTool{{
		Descriptor_: &tooldv1.Descriptor{Id: "paints", Parameters: `{"type":"object"}`, Mildest: &tooldv1.Assessment{Mutability: tooldv1.Mutability_MUTABILITY_READ_ONLY}},
		Questions: []tooldv1.WorkerQuestionKind{
			tooldv1.WorkerQuestionKind_WORKER_QUESTION_KIND_VALIDATE, tooldv1.WorkerQuestionKind_WORKER_QUESTION_KIND_ASSESS,
			tooldv1.WorkerQuestionKind_WORKER_QUESTION_KIND_DESCRIBE, 99, // a kind that only a later version of the API has
		},
	}}}})
	first, err := stream.Recv()
	must(t, err)
	if r := first.GetRegistered(); len(r.GetRefused()) > 0 || !r.GetInput() {
		t.Fatalf("registered: %v", r)
	}
	const asks = "VERDICT_ACTION_SUSPEND MUTABILITY_MUTATING TIER_CONFIRM: "
	long := strings.Repeat("x", 1<<20)
	answers := map[tooldv1.WorkerQuestionKind]*tooldv1.WorkerAnswer{}
	var mu sync.Mutex
	go func() { // returns when the stream ends
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			if q := m.GetQuestion(); q != nil {
				mu.Lock()
				a := answers[q.GetKind()]
				mu.Unlock()
				if a == nil {
					a = &tooldv1.WorkerAnswer{}
				}
				_ = stream.Send(&tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Answer{Answer: &tooldv1.WorkerAnswer{
					QuestionId: q.GetQuestionId(), Error: a.GetError(), Assessment: a.GetAssessment(), Description: a.GetDescription(),
				}}})
			}
		}
	}()
	for name, tt := range map[string]struct {
		validate, assess, describe *tooldv1.WorkerAnswer
		want                       string
	}{
		"nothing":        {want: asks + "paints [] degraded true"},
		"beyond mildest": {assess: &tooldv1.WorkerAnswer{Assessment: &tooldv1.Assessment{Mutability: 1, Safety: 1, Tier: tooldv1.Tier_TIER_OBSERVE}}, want: asks + "paints [] degraded true"},
		"resources without permission": {
			assess: &tooldv1.WorkerAnswer{Assessment: &tooldv1.Assessment{Resources: []*tooldv1.Resource{{Kind: "file", Id: "a"}}}}, want: asks + "paints [] degraded true",
		},
		"unknown numbers": {assess: &tooldv1.WorkerAnswer{Assessment: &tooldv1.Assessment{Mutability: 77, Safety: 77, Tier: 77}}, describe: &tooldv1.WorkerAnswer{Description: &tooldv1.Description{Kind: 77}}, want: asks + "paints [] degraded false"},
		"too long":        {describe: &tooldv1.WorkerAnswer{Description: &tooldv1.Description{Title: long}}, want: asks + "paints [] degraded true"},
		"an artifact": {describe: &tooldv1.WorkerAnswer{Description: &tooldv1.Description{Preview: []*tooldv1.Content{{
			Type: tooldv1.ContentType_CONTENT_TYPE_TEXT, Artifact: "stdout",
		}}}}, want: asks + "paints [] degraded true"},
		"as it should be": {describe: &tooldv1.WorkerAnswer{Description: &tooldv1.Description{Title: "Paint"}}, want: asks + "Paint [] degraded false"},
		"a code of the daemon": {
			validate: &tooldv1.WorkerAnswer{Error: &tooldv1.ToolError{Code: tooldv1.ErrorCode_ERROR_CODE_IN_DOUBT, Message: "no"}},
			want:     "ERROR_CODE_INVALID_ARGUMENTS : no",
		},
		"a long error": {
			validate: &tooldv1.WorkerAnswer{Error: &tooldv1.ToolError{Code: tooldv1.ErrorCode_ERROR_CODE_DENIED, Message: long}},
			want:     "ERROR_CODE_DENIED : " + long[:8<<10] + "…",
		},
	} {
		mu.Lock()
		answers = map[tooldv1.WorkerQuestionKind]*tooldv1.WorkerAnswer{1: tt.validate, 2: tt.assess, 3: tt.describe}
		mu.Unlock()
		eventually(t, name+" is "+clipped(tt.want), func() bool { return p.described("red") == tt.want })
	}
}

func clipped(s string) string { return s[:min(len(s), 100)] }
