package worker_test

import (
	"context"
	"testing"

	"github.com/toold-dev/toold/sdk/go/worker"
)

// TestTokensStayOnThisMachine checks that workers refuse the same addresses as clients. sdk/go has a copy of this test. A shared test
// package would add the workers' modules to the go.sum of programs that use only the client.
func TestTokensStayOnThisMachine(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, address := range []string{
		"toold.example:7130", "10.0.0.5:7130", "localhost.example:7130", "127.0.0.1.example:7130", "[2001:db8::1]:7130", "dns:///toold.example:7130",
		"dns://10.0.0.53/localhost:7130", "0.0.0.0:7130", "xds:///localhost:7130", "toold.example",
	} {
		if err := worker.New(worker.Config{Address: address, Token: "secret", Pool: "p"}).Run(gone); err == nil {
			t.Errorf("a worker sends its token to %s", address)
		}
	}
}
