// Command toold is toold with extra tools for the benchmarks and the crash tests.
package main

import (
	"github.com/toold-dev/toold/daemon"
	"github.com/toold-dev/toold/sandbox"
)

func main() {
	sandbox.Help() // runs the helper if this program was started as its own helper
	daemon.Main(daemon.WithTools(tools()...))
}
