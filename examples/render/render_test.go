package render_test

import (
	"context"
	"fmt"

	"github.com/toold-dev/toold/examples/render"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/tooltest"
)

// farm finishes a job when its state is read for the third time.
type farm struct{ looks int }

func (f *farm) Start(context.Context, string) (string, error) { return "job-7", nil }

func (f *farm) State(context.Context, string) (render.State, error) {
	f.looks++
	return render.State{Fraction: float64(f.looks) / 3, Done: f.looks == 3}, nil
}

func (f *farm) Cancel(_ context.Context, job string) { fmt.Println("stopped", job) }

func Example() {
	t := &render.Render{Farm: &farm{}}
	call := &tool.Call{ID: "c", Reporter: &tooltest.Recorder{}}
	started, err := t.Execute(context.Background(), call)
	fmt.Println(started.Status, started.Operation.ID, err)
	call.Operation = started.Operation
	for range 3 {
		r, err := t.Poll(context.Background(), call)
		fmt.Println(r.IsSuccess(), err)
	}
	t.Abandon(context.Background(), call)
	// Output:
	// PENDING job-7 <nil>
	// false <nil>
	// false <nil>
	// true <nil>
	// stopped job-7
}
