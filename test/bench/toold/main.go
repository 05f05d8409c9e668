// Command toold is toold with the tools that benchmarks and the crash loop call.
package main

import (
	"github.com/toold-dev/toold/daemon"
	"github.com/toold-dev/toold/sandbox"
)

func main() {
	sandbox.Help() // when this program was started as its own helper
	daemon.Main(daemon.WithTools(tools()...))
}
