// Command toold runs tools for orchestrators of language models: the daemon ("toold serve") and its command line.
package main

import (
	"github.com/toold-dev/toold/daemon"
	"github.com/toold-dev/toold/sandbox"
)

// version is set when the binary is built for others.
var version = "unknown"

func main() {
	sandbox.Help() // when this program was started as its own helper
	daemon.Main(version)
}
