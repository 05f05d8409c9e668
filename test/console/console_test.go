// Package console_test runs the short part of the console's tests in Debian's Chromium.
package console_test

import (
	"os"
	"os/exec"
	"testing"
)

// TestConsole checks in a browser that people can sign in, decide, decide at the same time, and see a call end. It also checks that a
// killed daemon loses nothing of the inbox. The pictures are in bin/console. scripts/console.sh without arguments tests all screens.
func TestConsole(t *testing.T) {
	for _, program := range []string{"node", "npm", "protoc", "chromium"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	cmd := exec.Command("../../scripts/console.sh", "--short")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
