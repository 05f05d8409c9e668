package todo_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/tooltest"
	"github.com/toold-dev/toold/tool/typed"
	"github.com/toold-dev/toold/tools/todo"
)

func list(items ...string) todo.List {
	l := todo.List{Todos: []todo.Item{}}
	for _, item := range items {
		mark, content, _ := strings.Cut(item, " ")
		status := map[string]todo.Status{"x": todo.Completed, "~": todo.InProgress, "-": todo.Pending}[mark]
		l.Todos = append(l.Todos, todo.Item{Content: content, Status: status})
	}
	return l
}

// exec validates and executes a call as the engine does.
func exec(t *testing.T, x tool.Tool, run tool.Run, docs tool.Documents, args any) (*tool.Result, error) {
	t.Helper()
	call := &tool.Call{Run: run, Documents: docs, Arguments: typed.Args(args)}
	if err := x.(tool.Validator).Validate(call.Arguments); err != nil {
		return nil, err
	}
	return x.Execute(t.Context(), call)
}

func TestWriteThenRead(t *testing.T) {
	tests := []struct {
		name  string
		run   tool.Run
		scope tool.Scope
	}{
		{"thread", tool.Run{ID: "r", Thread: "t"}, tool.ThreadScope},
		{"run without thread", tool.Run{ID: "r"}, tool.RunScope},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var docs tooltest.Documents
			res, err := exec(t, todo.Write(), tt.run, docs.Snapshot(), list("x read", "~ write", "- test"))
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Documents) != 1 || res.Documents[0].Scope != tt.scope || res.Documents[0].Key != todo.DocumentKey {
				t.Fatalf("commands = %+v, want one in %s", res.Documents, tt.scope)
			}
			if lost := docs.Commit(res.Documents...); lost != nil {
				t.Fatalf("lost %+v", lost)
			}
			const want = "3 todos: 1 completed, 1 in progress, 1 pending\n1. [x] read\n2. [~] write\n3. [ ] test"
			if res.ModelText() != want {
				t.Errorf("todo_write answers %q, want %q", res.ModelText(), want)
			}
			read, err := exec(t, todo.Read(), tt.run, docs.Snapshot(), struct{}{})
			if err != nil {
				t.Fatal(err)
			}
			if read.ModelText() != want || read.Data != res.Data {
				t.Errorf("todo_read answers %q, %s", read.ModelText(), read.Data)
			}
			if read.Documents != nil {
				t.Errorf("todo_read writes %+v", read.Documents)
			}
		})
	}
}

// The test checks that when two calls have read the same list, the second commit fails and does not overwrite the first.
func TestALostRaceIsSeen(t *testing.T) {
	var docs tooltest.Documents
	run := tool.Run{Thread: "t"}
	for round, before := range []string{"no list yet", "a list"} {
		saw := docs.Snapshot()
		first, err := exec(t, todo.Write(), run, saw, list("- first"))
		if err != nil {
			t.Fatal(err)
		}
		second, err := exec(t, todo.Write(), run, saw, list("- second"))
		if err != nil {
			t.Fatal(err)
		}
		if lost := docs.Commit(first.Documents...); lost != nil {
			t.Errorf("round %d, %s: the first lost", round, before)
		}
		if lost := docs.Commit(second.Documents...); len(lost) != 1 {
			t.Errorf("round %d, %s: the second was stored", round, before)
		}
	}
}

func TestAnEmptyListClears(t *testing.T) {
	var docs tooltest.Documents
	run := tool.Run{Thread: "t"}
	for _, l := range []todo.List{list("- a"), list()} {
		res, err := exec(t, todo.Write(), run, docs.Snapshot(), l)
		if err != nil {
			t.Fatal(err)
		}
		docs.Commit(res.Documents...)
	}
	doc, _, _ := docs.Snapshot().Get(tool.ThreadScope, todo.DocumentKey)
	res, err := exec(t, todo.Read(), run, docs.Snapshot(), struct{}{})
	if err != nil || res.ModelText() != "The todo list is empty." || res.Data != `{"todos":[]}` || doc.Value != res.Data {
		t.Errorf("read = %q %s, stored %s, %v", res.ModelText(), res.Data, doc.Value, err)
	}
}

func TestWriteRefuses(t *testing.T) {
	many := list()
	for range todo.MaxItems + 1 {
		many.Todos = append(many.Todos, todo.Item{Content: "a", Status: todo.Pending})
	}
	tests := []struct {
		name  string
		list  todo.List
		field string
	}{
		{"two in progress", list("~ a", "- b", "~ c"), "todos[2].status"},
		{"too many", many, "todos"},
		{"blank", list("- a", "-  "), "todos[1].content"},
		{"too long", list("- " + strings.Repeat("ä", todo.MaxContentLength+1)), "todos[0].content"},
		{"two lines", list("- a\nb"), "todos[0].content"},
		{"terminal escape", list("- \x1b[2J"), "todos[0].content"},
		{"unknown status", todo.List{Todos: []todo.Item{{Content: "a", Status: "done"}}}, "todos[0].status"},
		{"no status", todo.List{Todos: []todo.Item{{Content: "a"}}}, "todos[0].status"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := exec(t, todo.Write(), tool.Run{Thread: "t"}, nil, tt.list)
			var e *tool.Error
			if !errors.As(err, &e) || e.Code != tool.InvalidArguments || len(e.Violations) != 1 || e.Violations[0].Field != tt.field {
				t.Errorf("error = %+v, want a violation of %s", e, tt.field)
			}
		})
	}
	longest := list("- " + strings.Repeat("ä", todo.MaxContentLength))
	if _, err := exec(t, todo.Write(), tool.Run{Thread: "t"}, nil, longest); err != nil {
		t.Errorf("the longest content: %v", err)
	}
}

func TestACallThatBelongsToNothingHasNoList(t *testing.T) {
	for _, x := range []tool.Tool{todo.Read(), todo.Write()} {
		args := any(struct{}{})
		if x.Descriptor().ID == "todo_write" {
			args = list("- a")
		}
		res, err := exec(t, x, tool.Run{}, nil, args)
		if err == nil || tool.AsError(err).Reason != "NO_THREAD" {
			t.Errorf("%s = %+v, %v, want NO_THREAD", x.Descriptor().ID, res, err)
		}
	}
}

func TestABrokenDocumentIsNotOverwritten(t *testing.T) {
	var docs tooltest.Documents
	docs.Commit(tool.Key[int]{Scope: tool.ThreadScope, Name: todo.DocumentKey}.Set(1))
	if res, err := exec(t, todo.Write(), tool.Run{Thread: "t"}, docs.Snapshot(), list("- a")); err == nil {
		t.Errorf("result = %+v, want an error that names the document", res)
	}
}

func TestDescriptors(t *testing.T) {
	read, write := todo.Read().Descriptor(), todo.Write().Descriptor()
	if e := read.Effects.Normal(); e.Mutability != tool.ReadOnly || e.Tier != tool.Observe {
		t.Errorf("todo_read: %+v", e)
	}
	if e := write.Effects.Normal(); e.Mutability != tool.Mutating || e.Tier != tool.Observe || e.ConcurrencySafe {
		t.Errorf("todo_write: %+v", e)
	}
	for _, d := range []tool.Descriptor{read, write} {
		if err := tool.ValidName(d.ID); err != nil {
			t.Error(err)
		}
	}
	// The schema repeats the limits as numbers.
	var schema struct {
		Properties struct {
			Todos struct {
				MaxItems int
				Items    struct {
					Properties struct{ Content struct{ MaxLength int } }
				}
			}
		}
	}
	if err := json.Unmarshal(write.Parameters, &schema); err != nil {
		t.Fatal(err)
	}
	todos := schema.Properties.Todos
	if todos.MaxItems != todo.MaxItems || todos.Items.Properties.Content.MaxLength != todo.MaxContentLength {
		t.Errorf("schema says %+v", todos)
	}
}
