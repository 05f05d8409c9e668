package toold_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"

	toold "github.com/toold-dev/toold/sdk/go"
)

func TestTheVersionIsChecked(t *testing.T) {
	for version, want := range map[string]string{
		"0.1.0": "", "v0.1.0": "", "0.27.3-rc.1+b": "", "293eaa05": "", "unknown": "", "": "", "0.1": "",
		"v0.0.0-20261124094551-293eaa05f00d": "", // a build of a commit before the first release
		"v0.0.9":                             "upgrade the daemon to 0.1 or later",
		"v1.0.0":                             "upgrade the module to 1",
		"99999999999999999999.0.0":           "upgrade the module",
	} {
		v := &versioned{version: version}
		c := serve(t, admin(v), calls(&refusing{}))
		for range 2 {
			_, err := c.Get(t.Context(), "a")
			if want == "" && err != nil || want != "" && (!errors.Is(err, toold.ReasonVersionMismatch) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), version)) {
				t.Errorf("with the daemon's version %q: %v, want %q", version, err, want)
			}
		}
		if want == "" && v.asked != 1 {
			t.Errorf("the client asked for the version %d times, want once", v.asked)
		}
	}
}

func TestOtherServersAreRefused(t *testing.T) {
	c := serve(t, func(*grpc.Server) {})
	_, err := c.Toolset(t.Context(), toold.OpenAI, toold.ToolsetConfig{})
	var e *toold.Error
	if !errors.As(err, &e) || e.Reason != toold.ReasonNotToold || e.Hint() == "" {
		t.Errorf("a server without services gives %v", err)
	}
}
