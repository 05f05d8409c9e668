package typed_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

type place struct {
	Path string `json:"path" jsonschema:"Where it is."`
	Line int    `json:"line,omitempty"`
}

type editArgs struct {
	Places []place        `json:"places" jsonschema:"What to change."`
	DryRun bool           `json:"dry_run,omitempty"`
	Limit  *int           `json:"limit,omitempty"`
	Labels map[string]int `json:"labels,omitempty"`
}

func echo(_ context.Context, _ *tool.Call, args editArgs) (*tool.Result, error) {
	return tool.Success(args), nil
}

func TestParametersComeFromTheType(t *testing.T) {
	d := typed.New(tool.Descriptor{ID: "edit"}, echo).Descriptor()
	const want = `{"type":"object","properties":{` +
		`"places":{"type":"array","items":{"type":"object","properties":{` +
		`"path":{"type":"string","description":"Where it is."},"line":{"type":"integer"}},"required":["path"],"additionalProperties":false},` +
		`"description":"What to change."},` +
		`"dry_run":{"type":"boolean"},` +
		`"limit":{"type":["null","integer"]},` +
		`"labels":{"type":"object","additionalProperties":{"type":"integer"}}},` +
		`"required":["places"],"additionalProperties":false}`
	if string(d.Parameters) != want {
		t.Errorf("parameters:\n%s\nwant:\n%s", d.Parameters, want)
	}
}

// TestSchemaOfSpecialTypes checks that the schema and Decode accept the same JSON for types such as time.Time. jsonschema alone would only
// use their Go kind.
func TestSchemaOfSpecialTypes(t *testing.T) {
	type special struct {
		Bytes  []byte          `json:"bytes"`
		Raw    json.RawMessage `json:"raw"`
		Number json.Number     `json:"number"`
		Time   time.Time       `json:"time"`
		Any    any             `json:"any"`
		Deep   [][]string      `json:"deep"`
	}
	got, err := typed.Schema[special]()
	const want = `{"type":"object","properties":{` +
		`"bytes":{"type":"string","contentEncoding":"base64"},` +
		`"raw":true,"number":{"type":"number"},` +
		`"time":{"type":"string","format":"date-time"},` +
		`"any":true,` +
		`"deep":{"type":"array","items":{"type":"array","items":{"type":"string"}}}},` +
		`"required":["bytes","raw","number","time","any","deep"],"additionalProperties":false}`
	if err != nil || string(got) != want {
		t.Errorf("schema: %v\n%s\nwant:\n%s", err, got, want)
	}
	args := typed.Args(special{[]byte("hi"), json.RawMessage(`[1]`), "1e2", time.Unix(0, 0).UTC(), "x", [][]string{{"a"}}})
	var back special
	if err := typed.Decode(args.Value(), &back); err != nil {
		t.Errorf("Decode: %v", err)
	}
}

func TestParametersOfTheDescriptorStay(t *testing.T) {
	own := json.RawMessage(`{"type":"object"}`)
	if d := typed.New(tool.Descriptor{ID: "edit", Parameters: own}, echo).Descriptor(); string(d.Parameters) != string(own) {
		t.Errorf("parameters = %s", d.Parameters)
	}
}

func TestNoArguments(t *testing.T) {
	x := typed.New(tool.Descriptor{ID: "now"}, func(context.Context, *tool.Call, struct{}) (*tool.Result, error) {
		return tool.Text("noon"), nil
	})
	if got := string(x.Descriptor().Parameters); got != `{"type":"object","additionalProperties":false}` {
		t.Errorf("parameters = %s", got)
	}
	if res, err := x.Execute(t.Context(), &tool.Call{}); err != nil || res.ModelText() != "noon" {
		t.Errorf("Execute = %+v, %v", res, err)
	}
}

func TestExecuteGetsTheValue(t *testing.T) {
	type value = map[string]any
	args := typed.Args(value{
		"places": []value{{"path": "a.go", "line": 3}, {"path": "b.go"}},
		"limit":  9007199254740993, // A float could not hold this number exactly.
		"labels": value{"x": 1},
	})
	res, err := typed.New(tool.Descriptor{ID: "edit"}, echo).Execute(t.Context(), &tool.Call{Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"places":[{"path":"a.go","line":3},{"path":"b.go"}],"limit":9007199254740993,"labels":{"x":1}}`
	if res.Data != want {
		t.Errorf("got %s, want %s", res.Data, want)
	}
}

// The test checks that arguments that fit the schema but not the Go type are rejected by Validate, so before a person is asked.
func TestWhatDoesNotFitIsInvalid(t *testing.T) {
	tests := []struct {
		name, args, field string
	}{
		{"text for a list", `{"places":"a"}`, "places"},
		{"number for text", `{"places":[{"path":"a"},{"path":1}]}`, "places[1].path"},
		{"integer above 2^63", `{"places":[{"path":"a","line":9223372036854775808}]}`, "places[0].line"},
		{"broken number", `{"places":[{"path":"a","line":1.5}]}`, "places[0].line"},
		{"null", `{"places":[],"dry_run":null}`, "dry_run"},
		{"text in a map", `{"places":[],"labels":{"a b":"x"}}`, "labels"},
	}
	called := false
	x := typed.New(tool.Descriptor{ID: "edit", Parameters: json.RawMessage(`{}`)}, func(context.Context, *tool.Call, editArgs) (*tool.Result, error) {
		called = true
		return tool.Text("ran"), nil
	})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := typed.Args(json.RawMessage(tt.args))
			_, executed := x.Execute(t.Context(), &tool.Call{Arguments: args})
			for method, err := range map[string]error{"Validate": x.(tool.Validator).Validate(args), "Execute": executed} {
				var e *tool.Error
				if !errors.As(err, &e) || e.Code != tool.InvalidArguments {
					t.Fatalf("%s = %v, want INVALID_ARGUMENTS", method, err)
				}
				if len(e.Violations) != 1 || !strings.HasPrefix(e.Violations[0].Field, tt.field) || e.Violations[0].Description == "" || e.Message == "" {
					t.Errorf("%s = %q %+v, want a violation of %s", method, e.Message, e.Violations, tt.field)
				}
			}
		})
	}
	if called {
		t.Error("the tool ran")
	}
}

func TestOptions(t *testing.T) {
	dry := tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe}
	d := tool.Descriptor{ID: "edit", Effects: tool.Effects{Tier: tool.Escalate}, Mildest: &dry}
	x := typed.New(d, echo,
		typed.WithValidate(func(a editArgs) error {
			if len(a.Places) == 0 {
				return errors.New("nothing to change")
			}
			return nil
		}),
		typed.WithAssess(func(a editArgs) tool.Effects {
			if a.DryRun {
				return dry
			}
			return tool.Effects{}
		}),
		typed.WithDescribe(func(_ context.Context, c *tool.Call, a editArgs) (tool.Description, error) {
			return tool.Description{Title: c.Tool + " " + a.Places[0].Path}, nil
		}),
	)
	good := typed.Args(editArgs{Places: []place{{Path: "a"}}, DryRun: true})
	bad := typed.Args(map[string]int{"places": 1})

	if err := x.(tool.Validator).Validate(good); err != nil {
		t.Errorf("Validate: %v", err)
	}
	if err := x.(tool.Validator).Validate(typed.Args(editArgs{Places: []place{}})); err == nil || err.Error() != "nothing to change" {
		t.Errorf("Validate = %v, want the author's error", err)
	}
	if got := x.(tool.Assessor).Assess(good); !reflect.DeepEqual(got, dry) {
		t.Errorf("Assess = %+v", got)
	}
	if got := x.(tool.Assessor).Assess(bad); !reflect.DeepEqual(got, d.Effects) {
		t.Errorf("Assess of what does not fit = %+v, want the descriptor's effects", got)
	}
	desc, err := x.(tool.Describer).Describe(t.Context(), &tool.Call{Tool: "edit", Arguments: good})
	if err != nil || desc.Title != "edit a" {
		t.Errorf("Describe = %+v, %v", desc, err)
	}
	if _, err := x.(tool.Describer).Describe(t.Context(), &tool.Call{Arguments: bad}); err == nil {
		t.Error("Describe of what does not fit: no error")
	}
}

// Without WithDescribe, the tool is not a Describer. Without WithAssess, the effects of the descriptor apply.
func TestWithoutOptions(t *testing.T) {
	effects := tool.Effects{Mutability: tool.ReadOnly}
	x := typed.New(tool.Descriptor{ID: "edit", Effects: effects}, echo)
	if _, ok := x.(tool.Describer); ok {
		t.Error("a tool without WithDescribe is a Describer")
	}
	if got := x.(tool.Assessor).Assess(tool.Arguments{}); !reflect.DeepEqual(got, effects) {
		t.Errorf("Assess = %+v, want the descriptor's effects", got)
	}
}

func TestNewPanicsWithoutSchema(t *testing.T) {
	for name, make := range map[string]func(){
		"not a struct": func() { typed.New(tool.Descriptor{ID: "x"}, run[[]string]) },
		"no JSON form": func() { typed.New(tool.Descriptor{ID: "x"}, run[struct{ C chan int }]) },
		"recursive":    func() { typed.New(tool.Descriptor{ID: "x"}, run[node]) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, "tool x") {
					t.Errorf("panic %q, want one that names the tool", text)
				}
			}()
			make()
		})
	}
}

type node struct {
	Next *node `json:"next,omitempty"`
}

func run[T any](context.Context, *tool.Call, T) (*tool.Result, error) { return nil, nil }

func TestArgs(t *testing.T) {
	a := typed.Args(place{Path: "a", Line: 3})
	if a.Text() != `{"path":"a","line":3}` || a.String("path") != "a" || a.Value()["line"] != json.Number("3") {
		t.Errorf("Args = %s, %#v", a.Text(), a.Value())
	}
	for _, v := range []any{nil, 1, "a", []int{1}, make(chan int)} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Args(%T) did not panic", v)
				}
			}()
			typed.Args(v)
		}()
	}
}

func BenchmarkExecute(b *testing.B) {
	x := typed.New(tool.Descriptor{ID: "edit"}, func(context.Context, *tool.Call, editArgs) (*tool.Result, error) { return nil, nil })
	call := &tool.Call{Arguments: typed.Args(editArgs{Places: []place{{"a.go", 3}, {"b.go", 0}}, Labels: map[string]int{"x": 1}})}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.Execute(b.Context(), call); err != nil {
			b.Fatal(err)
		}
	}
}
