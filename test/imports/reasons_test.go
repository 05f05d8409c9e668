package imports_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	refusal   = regexp.MustCompile(`(?s)(?:Refuse\([\w.]+,\s*|(?:Refusal|ErrorInfo)\{[^}]*?Reason:\s*|uncontrolled\()"([A-Z_]*[A-Z])"`)
	reasonRow = regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|")
)

// TestReasons checks that the page of reasons, which the SDKs contain, has every reason of a refused request and no other.
func TestReasons(t *testing.T) {
	const page = "docs/reference/errors.md"
	listed := map[string]bool{}
	for _, row := range reasonRow.FindAllStringSubmatch(text(t, page), -1) {
		listed[row[1]] = true
	}
	out, err := exec.Command("git", "-C", "../..", "ls-files", "*.go", "sdk/typescript/src/*.ts").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for file := range strings.FieldsSeq(string(out)) {
		if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, ".pb.go") {
			continue
		}
		code, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(code)
		for _, m := range refusal.FindAllStringSubmatch(string(code), -1) {
			if !listed[m[1]] {
				t.Errorf("%s: %s is not in %s", file, m[1], page)
			}
		}
	}
	for reason := range listed {
		if !strings.Contains(all.String(), `"`+reason+`"`) && !strings.HasPrefix(reason, "DOCUMENT_") && !strings.HasPrefix(reason, "NOT_YOUR_") {
			t.Errorf("%s has %s, which no request gets", page, reason)
		}
	}
}
