// Command toold runs tools for orchestrators of language models. It contains the daemon ("toold serve") and its command line.
package main

import (
	"github.com/toold-dev/toold/daemon"
	"github.com/toold-dev/toold/sandbox"
)

func main() {
	sandbox.Help() // runs the helper if this program was started as its own helper
	daemon.Main()
}
