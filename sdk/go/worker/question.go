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

// questions are what the worker says of the tool's calls before they run.
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

// valid asks the tool about the arguments. An error of its own is INVALID_ARGUMENTS.
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

// internal is the answer of a function that did not come to its end.
func internal() *tooldv1.WorkerAnswer {
	return &tooldv1.WorkerAnswer{Error: &tooldv1.ToolError{Code: tooldv1.ErrorCode_ERROR_CODE_INTERNAL, Message: "The tool failed internally"}}
}

// answer says what is asked of a call that does not run yet, over the connection that asked and no other.
func (c *connection) answer(q *tooldv1.WorkerQuestion) {
	c.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), q.GetWithin().AsDuration())
		defer cancel()
		a := internal()
		defer func() { // also of a function that ends its goroutine
			if err := fits(&tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Answer{Answer: a}}); err != nil {
				c.cfg.Log("answer not sent: " + err.Error())
				a = internal()
			}
			a.QuestionId = q.GetQuestionId()
			select {
			case c.answers <- &tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Answer{Answer: a}}:
			case <-ctx.Done(): // nobody waits for it
			case <-c.alive.Done():
			}
		}()
		a = c.consider(ctx, q)
	})
}

// consider asks the function of the tool and catches what it throws.
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
