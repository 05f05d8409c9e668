package rows_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/rows"
)

// TestStatuses compares the lists in SQL with the statuses of a call.
func TestStatuses(t *testing.T) {
	unfinished := call.Unfinished()
	begun := slices.DeleteFunc(slices.Clone(unfinished), func(s call.Status) bool { return s == call.Suspended })
	for text, want := range map[string][]call.Status{rows.Unfinished: unfinished, rows.Begun: begun} {
		var got []call.Status
		for one := range strings.SplitSeq(strings.Trim(text, "()"), ", ") {
			got = append(got, call.Status(strings.Trim(one, "'")))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("SQL has %v, want %v", got, want)
		}
	}
}
