package daemon

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toold-dev/toold/plugins/redact"
)

// Many tokens of one server do not end the redaction of another server's token.
func TestTokensOfOneServerLeaveThoseOfOthers(t *testing.T) {
	r, err := redact.New(redact.Config{})
	must(t, err)
	live := redact.NewLive(r)
	known := signedIn(live)
	const others = "Other-01"
	known("other", others)
	for i := range 257 { // one more than are kept for each server
		known("busy", fmt.Sprintf("Busy-%03d", i))
	}
	for _, token := range []string{others, "Busy-256"} {
		if text := live.Text("it is " + token); strings.Contains(text, token) {
			t.Errorf("it tells %q", text)
		}
	}
}
