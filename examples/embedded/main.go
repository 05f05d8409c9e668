// Command embedded is toold with a tool and a gate of its own: "embedded serve", "embedded call greet name=Ada" and all other commands.
package main

import (
	"github.com/toold-dev/toold/daemon"
	"github.com/toold-dev/toold/examples/greet"
	"github.com/toold-dev/toold/examples/protect"
	"github.com/toold-dev/toold/sandbox"
)

func main() {
	sandbox.Help() // when this program was started to isolate a process
	daemon.Main(
		daemon.WithTools(greet.New()),
		daemon.WithHooks(protect.New(protect.Gate{Never: []string{".env"}, Ask: []string{"migrations/*"}})),
	)
}
