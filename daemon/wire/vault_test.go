package wire_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/toold-dev/toold/daemon/wire"
)

// A file that a killed daemon left incomplete is not read, and the next Save removes it. Its permissions do not carry over to the new file.
func TestVaultAfterAKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mcp")
	v := wire.Vault(dir)
	for _, text := range []string{"first", "second"} {
		if err := v.Save("key", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, ok := v.Load("key"); !ok || string(got) != text {
			t.Errorf("kept is %q, %v", got, ok)
		}
		list, err := os.ReadDir(dir)
		if err != nil || len(list) != 1 {
			t.Fatalf("there are %v, %v", list, err)
		}
		if info, err := list[0].Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("its rights are %v, %v", info.Mode(), err)
		}
		if err := os.WriteFile(filepath.Join(dir, list[0].Name()+".new"), []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, _ := v.Load("key"); string(got) != text {
			t.Errorf("half-written, kept is %q", got)
		}
	}
	if err := v.Save("key", []byte("third")); err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("left are %v, %v", list, err)
	}
}
