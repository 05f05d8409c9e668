package greet_test

import (
	"context"
	"fmt"

	"github.com/toold-dev/toold/examples/greet"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/tooltest"
	"github.com/toold-dev/toold/tool/typed"
)

func Example() {
	t := greet.New()
	recorder := &tooltest.Recorder{}
	res, err := t.Execute(context.Background(), &tool.Call{
		Arguments: typed.Args(greet.Args{Name: "Ada", Times: 2}),
		Reporter:  recorder,
	})
	fmt.Println(res.ModelText(), err)
	fmt.Println(res.JSON())
	fmt.Println(recorder.ProgressReports()[0].Message)
	fmt.Println(string(t.Descriptor().Parameters))
	// Output:
	// Hello Ada! Hello Ada! <nil>
	// {"greeting":"Hello Ada! Hello Ada!"}
	// clearing my throat
	// {"type":"object","properties":{"name":{"type":"string","description":"Who is greeted."},"times":{"type":"integer","description":"How often, at most 10; once when left out."}},"required":["name"],"additionalProperties":false}
}

func Example_badArguments() {
	v := greet.New().(tool.Validator)
	fmt.Println(v.Validate(typed.Args(greet.Args{Name: "Ada", Times: 11})))
	fmt.Println(tool.AsError(v.Validate(typed.Args(map[string]int{"name": 1}))).Violations)
	// Output:
	// times is 11; it must be from 1 to 10
	// [{name want a string, got a number}]
}
