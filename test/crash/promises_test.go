package crash_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPromisesNameTests compares docs/reference/promises.md with the tests. Each promise must have a row with at least one test, and each
// named test must exist. For each attack, a test file in the folder of a named test must contain the number of the attack.
func TestPromisesNameTests(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/promises.md")
	must(t, err)
	named := regexp.MustCompile("`([a-z/]+)\\.([A-Z][A-Za-z0-9]+)`")
	inBrowser := regexp.MustCompile("`(test/browser/[a-z/]+\\.test\\.ts)`")
	for n := range 12 {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| P%d \|.*$`, n+1)).FindString(string(page))
		if !named.MatchString(row) {
			t.Errorf("P%d names no test", n+1)
		}
	}
	for _, row := range regexp.MustCompile(`(?m)^\| (T\d[T\d, ]*) \|.*$`).FindAllStringSubmatch(string(page), -1) {
		for number := range strings.SplitSeq(row[1], ", ") {
			borne := func(m []string) bool { return contained(t, filepath.Join("../..", m[1], "*_test.go"), number) }
			shown := func(m []string) bool { return contained(t, filepath.Join("../..", m[1]), `test("`+number) }
			if !slices.ContainsFunc(named.FindAllStringSubmatch(row[0], -1), borne) && !slices.ContainsFunc(inBrowser.FindAllStringSubmatch(row[0], -1), shown) {
				t.Errorf("no test of %s bears its number", number)
			}
		}
	}
	for _, m := range inBrowser.FindAllStringSubmatch(string(page), -1) {
		if _, err := os.Stat(filepath.Join("../..", m[1])); err != nil {
			t.Error(err)
		}
	}
	for _, m := range named.FindAllStringSubmatch(string(page), -1) {
		folder, name := m[1], m[2]
		want := "func " + name + "(t *testing.T)"
		if strings.HasPrefix(name, "Fuzz") {
			want = "func " + name + "(f *testing.F)"
		}
		files := filepath.Join("../..", folder, "*_test.go")
		if folder == "store/storetest" { // the suite that each store runs
			want, files = `{"`+name+`", test`, filepath.Join("../..", folder, "*.go")
		}
		if !contained(t, files, want) {
			t.Errorf("%s.%s is not there", folder, name)
		}
	}
}

func contained(t *testing.T, files, text string) bool {
	t.Helper()
	paths, err := filepath.Glob(files)
	must(t, err)
	for _, path := range paths {
		source, err := os.ReadFile(path)
		must(t, err)
		if strings.Contains(string(source), text) {
			return true
		}
	}
	return false
}
