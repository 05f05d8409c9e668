// Command toold-sandbox is the helper that toold starts to isolate a process. It is small because every isolated process begins as a copy
// of it. If it is not installed next to toold, toold starts itself as the helper, and each run takes some milliseconds longer. Users do not
// run it.
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
