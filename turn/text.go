package turn

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
)

// leastText is the minimum number of bytes of each text that are kept, even when a turn has many results.
const leastText = 256

// share returns the limit in bytes for each text. When all texts together exceed perTurn, the longest texts are cut to the same length.
func share(texts []string, perResult, perTurn int) []int {
	sizes := make([]int, len(texts))
	for i, text := range texts {
		sizes[i] = min(len(text), perResult)
	}
	limit, left := perResult, perTurn
	for i, size := range slices.Sorted(slices.Values(sizes)) {
		fair := left / (len(sizes) - i)
		if size > fair {
			limit = max(fair, leastText)
			break
		}
		left -= size
	}
	for i := range sizes {
		sizes[i] = min(perResult, limit)
	}
	return sizes
}

// shorten keeps the beginning and the end of a text that is longer than limit. It adds a note about the missing part, which names the
// artifacts that may contain the whole text. The note does not count towards limit.
func shorten(text string, limit int, a *Answer) string {
	if len(text) <= limit {
		return text
	}
	head, tail := limit-limit/4, len(text)-limit/4
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	where := ""
	if handles := a.handles(); handles != "" {
		where = "; the output is in " + handles
	}
	return fmt.Sprintf("%s\n[… %d bytes left out%s …]\n%s", text[:head], tail-head, where, text[tail:])
}

// handles returns the handles of at most three artifacts of a call.
func (a *Answer) handles() string {
	if a.Result == nil {
		return ""
	}
	var handles []string
	for _, artifact := range a.Result.Artifacts[:min(3, len(a.Result.Artifacts))] {
		if h := a.handle(artifact.Name); h != "" {
			handles = append(handles, h)
		}
	}
	return strings.Join(handles, ", ")
}

// handle returns the handle of an artifact. It returns "" if the name of the artifact is too long for a note.
func (a *Answer) handle(name string) string {
	const most = 300
	if h := tool.ArtifactHandle(a.CallID, name); len(h) <= most {
		return h
	}
	return ""
}
