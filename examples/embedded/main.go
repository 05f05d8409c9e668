// Command embedded is toold with an additional tool and gate. It has all commands of toold, such as "embedded serve" and "embedded call
// greet name=Ada".
package main

import (
	"github.com/toold-dev/toold/daemon"
	"github.com/toold-dev/toold/examples/greet"
	"github.com/toold-dev/toold/examples/protect"
	"github.com/toold-dev/toold/sandbox"
)

func main() {
	sandbox.Help() // runs the helper if this program was started to isolate a process
	daemon.Main(
		daemon.WithTools(greet.New()),
		daemon.WithHooks(protect.New(protect.Gate{Never: []string{".env"}, Ask: []string{"migrations/*"}})),
	)
}
