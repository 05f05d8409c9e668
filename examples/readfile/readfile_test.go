package readfile_test

import (
	"context"
	"fmt"
	"os"

	"github.com/toold-dev/toold/examples/readfile"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

func Example() {
	root, err := os.OpenRoot("testdata")
	if err != nil {
		panic(err)
	}
	t := readfile.New(root)
	for _, path := range []string{"hello.txt", "missing.txt", ".", "../readfile.go"} {
		res, err := t.Execute(context.Background(), &tool.Call{Arguments: typed.Args(readfile.Args{Path: path})})
		fmt.Printf("%s: %q %v\n", res.Status, res.ModelText(), err)
	}
	root.Close()
	res, err := t.Execute(context.Background(), &tool.Call{Arguments: typed.Args(readfile.Args{Path: "hello.txt"})})
	fmt.Println(res, err != nil)
	// Output:
	// SUCCESS: "Hello!\n" <nil>
	// ERROR: "there is no file missing.txt" <nil>
	// ERROR: "cannot read .: not a regular file" <nil>
	// ERROR: "cannot read ../readfile.go: openat ../readfile.go: path escapes from parent" <nil>
	// <nil> true
}
