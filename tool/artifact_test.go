package tool_test

import (
	"testing"

	"github.com/toold-dev/toold/tool"
)

func TestArtifactHandle(t *testing.T) {
	if got := tool.ArtifactHandle("0195a1b2-call", "stdout"); got != "artifact://0195a1b2-call/stdout" {
		t.Errorf("an ordinary handle is %s", got)
	}
	for _, want := range [][2]string{{"c", "stdout"}, {"a/b%2F#?c", "x/../y z"}, {"..", "\x00ü"}} {
		id, name, err := tool.ParseArtifactHandle(tool.ArtifactHandle(want[0], want[1]))
		if err != nil || id != want[0] || name != want[1] {
			t.Errorf("%q comes back as %q, %q, %v", want, id, name, err)
		}
	}
	for _, bad := range []string{"", "artifact://", "artifact://c", "artifact://c/", "artifact:///n", "artifact://c/n/m", "artifact://c/%zz", "file://c/n"} {
		if _, _, err := tool.ParseArtifactHandle(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzArtifactHandle(f *testing.F) {
	f.Add("artifact://c/stdout")
	f.Add("artifact://a%2Fb/%00")
	f.Fuzz(func(t *testing.T, handle string) {
		id, name, err := tool.ParseArtifactHandle(handle)
		if err != nil {
			return
		}
		again, same, err := tool.ParseArtifactHandle(tool.ArtifactHandle(id, name))
		if err != nil || again != id || same != name {
			t.Errorf("%q is %q, %q and then %q, %q, %v", handle, id, name, again, same, err)
		}
	})
}
