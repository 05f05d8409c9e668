package preferences_test

import (
	"context"
	"fmt"

	"github.com/toold-dev/toold/examples/preferences"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/tooltest"
	"github.com/toold-dev/toold/tool/typed"
)

func Example() {
	var thread tooltest.Documents
	execute := func(args preferences.Args) *tool.Result {
		call := &tool.Call{Arguments: typed.Args(args), Documents: thread.Snapshot()}
		res, err := preferences.New().Execute(context.Background(), call)
		if err != nil {
			panic(err)
		}
		return res
	}
	french := "French"

	fmt.Println(execute(preferences.Args{Name: "language"}).ModelText())
	set := execute(preferences.Args{Name: "language", Value: &french})
	fmt.Println(set.Documents[0].Value)
	fmt.Println("lost:", len(thread.Commit(set.Documents...)))
	fmt.Println(execute(preferences.Args{Name: "language"}).ModelText())
	fmt.Println("lost:", len(thread.Commit(set.Documents...))) // the document has a newer revision
	// Output:
	// no preference "language" is set
	// {"language":"French"}
	// lost: 0
	// French
	// lost: 1
}
