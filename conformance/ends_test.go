package conformance_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/conformance"
)

// TestEveryEnd compares the transcripts with the table of outcomes. A transcript must show each row, or README.md must say why none can.
func TestEveryEnd(t *testing.T) {
	rows := firstColumn(t, "../docs/reference/states.md", "## How calls end")
	without := firstColumn(t, "README.md", "## How calls end")
	if len(rows) < 23 {
		t.Fatalf("the table has %d rows; there were more", len(rows))
	}
	all, err := conformance.All()
	must(t, err)
	shown := map[string]bool{}
	for _, tr := range all {
		for _, end := range tr.Ends {
			if !slices.Contains(rows, end) {
				t.Errorf("%s shows an end that the table does not have: %s", tr.Name, end)
			}
			shown[end] = true
		}
	}
	for _, row := range rows {
		if named := slices.Contains(without, row); shown[row] == named {
			t.Errorf("row %q: shown by a transcript: %t, said to be out of reach: %t", row, shown[row], named)
		}
	}
	for _, row := range without {
		if !slices.Contains(rows, row) {
			t.Errorf("README.md gives a reason for a row that the table does not have: %s", row)
		}
	}
}

// firstColumn returns the first column of the first table below a heading.
func firstColumn(t *testing.T, file, heading string) (cells []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	_, below, ok := strings.Cut(string(text), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no heading %q", file, heading)
	}
	for line := range strings.Lines(below) {
		if !strings.HasPrefix(line, "|") {
			if cells != nil {
				break
			}
			continue
		}
		cells = append(cells, strings.TrimSpace(strings.Split(line, "|")[1]))
	}
	return cells[2:] // without the header and the line below it
}
