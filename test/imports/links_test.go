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
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeFence    = regexp.MustCompile("(?ms)^\\s*```.*?^\\s*```")
	heading      = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notInAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinks checks that each link of each page leads to an existing file, and that the fragment of the link names a heading in that file.
func TestLinks(t *testing.T) {
	out, err := exec.Command("git", "-C", "../..", "ls-files", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	for page := range strings.FieldsSeq(string(out)) {
		for _, link := range markdownLink.FindAllStringSubmatch(text(t, page), -1) {
			target, fragment, _ := strings.Cut(link[1], "#")
			if strings.Contains(target, ":") {
				continue // a link to another site
			}
			to := filepath.Join(filepath.Dir(page), target)
			if target == "" {
				to = page
			}
			if _, err := os.Stat(filepath.Join("../..", to)); err != nil {
				t.Errorf("%s links to %s, which is not there", page, link[1])
			} else if fragment != "" && strings.HasSuffix(to, ".md") && !anchors(text(t, to))[fragment] {
				t.Errorf("%s links to %s, which has no such heading", page, link[1])
			}
		}
	}
}

// text returns a page without its code blocks.
func text(t *testing.T, page string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	return codeFence.ReplaceAllString(string(raw), "")
}

// anchors returns the fragments of a page's headings, as GitHub derives them.
func anchors(page string) map[string]bool {
	names := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(page, -1) {
		name := notInAnchor.ReplaceAllString(strings.ToLower(h[1]), "")
		names[strings.ReplaceAll(name, " ", "-")] = true
	}
	return names
}
