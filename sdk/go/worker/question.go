package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Decode stores the arguments of the call in into.
func (c *Call) Decode(into any) error { return json.Unmarshal([]byte(c.GetArguments()), into) }

// questions returns which questions about calls the worker can answer for the tool.
func (t *Tool) questions() (kinds []tooldv1.WorkerQuestionKind) {
	if t.Validate != nil {
		kinds = append(kinds, tooldv1.WorkerQuestionKind_WORKER_QUESTION_KIND_VALIDATE)
	}
	if t.Assess != nil {
		kinds = append(kinds, tooldv1.WorkerQuestionKind_WORKER_QUESTION_KIND_ASSESS)
	}
	if t.Describe != nil {
		kinds = append(kinds, tooldv1.WorkerQuestionKind_WORKER_QUESTION_KIND_DESCRIBE)
	}
	return kinds
}

// valid runs the tool's Validate. An error that is not a [Failure] becomes INVALID_ARGUMENTS.
func (t *Tool) valid(ctx context.Context, c *Call) error {
	if t.Validate == nil {
		return nil
	}
	err := t.Validate(ctx, c)
	if err == nil {
		return nil
	}
	wrong := Failure{Message: err.Error()}
	if failure := new(Failure); errors.As(err, &failure) {
		wrong = *failure
	}
	if wrong.Aborted = true; wrong.Code == tooldv1.ErrorCode_ERROR_CODE_UNSPECIFIED {
		wrong.Code = tooldv1.ErrorCode_ERROR_CODE_INVALID_ARGUMENTS
	}
	return &wrong
}

// internal returns the answer for a function that panicked.
func internal() *tooldv1.WorkerAnswer {
	return &tooldv1.WorkerAnswer{Error: &tooldv1.ToolError{Code: tooldv1.ErrorCode_ERROR_CODE_INTERNAL, Message: "The tool failed internally"}}
}

// answer answers a question about a call that has not started yet. It sends the answer over the connection on which the question came.
func (c *connection) answer(q *tooldv1.WorkerQuestion) {
	c.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), q.GetWithin().AsDuration())
		defer cancel()
		a := internal()
		defer func() { // The deferred function also runs when the tool's function calls runtime.Goexit.
			if err := fits(&tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Answer{Answer: a}}); err != nil {
				c.cfg.Log("answer not sent: " + err.Error())
				a = internal()
			}
			a.QuestionId = q.GetQuestionId()
			select {
			case c.answers <- &tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Answer{Answer: a}}:
			case <-ctx.Done(): // the daemon no longer waits for the answer
			case <-c.alive.Done():
			}
		}()
		a = c.consider(ctx, q)
	})
}

// consider calls the tool's function for the question and recovers its panics.
func (w *Worker) consider(ctx context.Context, q *tooldv1.WorkerQuestion) (a *tooldv1.WorkerAnswer) {
	a = &tooldv1.WorkerAnswer{}
	defer func() {
		if r := recover(); r != nil {
			w.cfg.Log(fmt.Sprintf("panic in %s: %v\n%s", q.GetCall().GetTool(), r, debug.Stack()))
			a = internal()
		}
	}()
	c := &Call{WorkerCall: q.GetCall()}
	e := w.tools[q.GetCall().GetTool()]
	if e == nil {
		return internal()
	}
	var err error
	switch t := e.tool; {
	case q.GetKind() == tooldv1.WorkerQuestionKind_WORKER_QUESTION_KIND_VALIDATE:
		err = t.valid(ctx, c)
	case q.GetKind() == tooldv1.WorkerQuestionKind_WORKER_QUESTION_KIND_ASSESS && t.Assess != nil:
		a.Assessment, err = t.Assess(ctx, c)
	case q.GetKind() == tooldv1.WorkerQuestionKind_WORKER_QUESTION_KIND_DESCRIBE && t.Describe != nil:
		a.Description, err = t.Describe(ctx, c)
	default:
		err = fmt.Errorf("the worker does not answer %s", q.GetKind())
	}
	if err != nil {
		a.Error = resultOf(ctx, nil, err).GetError()
	}
	return a
}
