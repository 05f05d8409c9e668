package tooldv1_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestOldProtoc checks that protoc, such as that of Debian 12, accepts the proto files without extra flags.
func TestOldProtoc(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.proto")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-I", "../.."}
	for _, language := range []string{"cpp", "csharp", "java", "objc", "php", "python", "ruby"} {
		args = append(args, "--"+language+"_out="+t.TempDir())
	}
	for _, f := range files {
		args = append(args, "toold/v1/"+f)
	}
	if out, err := exec.Command("protoc", args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
