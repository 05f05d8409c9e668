package rank

import (
	"cmp"
	"slices"

	"github.com/toold-dev/toold/tool"
)

// builtin is the source of the daemon's own tools.
const builtin = "builtin"

// Select returns the indices of limit documents, or of all when there are fewer, sorted by id. It takes in this order:
//
//  1. the tools of include; if there are more than limit, the first of them
//  2. the tools that [Search] finds
//  3. the tools of the daemon
//  4. the first tool of each other source, then the second of each, and so on; in a source, tools that change nothing come first
func Select(query string, include []string, docs []*Document, limit int) []int {
	chosen := map[int]bool{}
	add := func(i int) {
		if len(chosen) < limit {
			chosen[i] = true
		}
	}
	ids := make(map[string]int, len(docs))
	for i, doc := range docs {
		ids[doc.tool.ID] = i
	}
	for _, id := range include {
		if i, ok := ids[id]; ok {
			add(i)
		}
	}
	for _, i := range search(query, docs, chosen, limit-len(chosen)) {
		add(i)
	}
	for _, i := range usual(docs) {
		add(i)
	}
	selected := make([]int, 0, limit)
	for i := range chosen {
		selected = append(selected, i)
	}
	slices.SortFunc(selected, func(a, b int) int { return cmp.Compare(docs[a].tool.ID, docs[b].tool.ID) })
	return selected
}

// usual returns all documents in the order in which they are useful when nothing is known about the task.
func usual(docs []*Document) []int {
	order := make([]int, len(docs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := docs[a].tool, docs[b].tool
		return cmp.Or(cmp.Compare(x.Source, y.Source), cmp.Compare(changes(x), changes(y)), cmp.Compare(x.ID, y.ID))
	})
	turn := make([]int, len(docs)) // position of the tool among the tools of its source, from 1; 0 for the daemon's tools
	given := map[string]int{}
	for _, i := range order {
		if source := docs[i].tool.Source; source != builtin {
			given[source]++
			turn[i] = given[source]
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(turn[a], turn[b]) })
	return order
}

// changes returns 0 for a tool that changes nothing, and 1 for other tools.
func changes(d *tool.Descriptor) int {
	if d.Effects.Normal().Mutability == tool.ReadOnly {
		return 0
	}
	return 1
}
