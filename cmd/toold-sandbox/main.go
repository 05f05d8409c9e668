// Command toold-sandbox is the helper that toold starts to isolate a process: small, because each of them begins as
// a copy of it. Without it beside toold, toold is its own helper, and a run takes some milliseconds longer. It is of no use to
// people.
package main

import (
	"fmt"
	"os"

	"github.com/toold-dev/toold/sandbox/helper"
)

func main() {
	if os.Args[0] != helper.Name {
		fmt.Fprintln(os.Stderr, "toold-sandbox is started by toold; see: toold sandbox --help")
		os.Exit(64)
	}
	helper.Main()
}
