package rows

import (
	"cmp"
	"slices"

	"github.com/toold-dev/toold/store"
)

// Nearby is the number of positions in which a feed looks for the next change of a run or thread before it uses an index. For a reader near
// the end of the journal, this scan is fast. A reader of a quiet run that is far behind finds the next change faster through the calls of
// the run.
const Nearby = 512

// A FeedPart is a part of a feed, which a store reads in one snapshot.
type FeedPart struct {
	store.Feed
	After    int64 // The part begins after this position. The store sets it to the last position that it has read.
	Limit    int
	Found    []Chunk
	Newest   int64 // the newest position of the journal
	Complete bool  // The part has reached the end of the feed.
}

// Feed returns at most limit entries of a feed with positions above after, in the order of their positions, and the newest position of the
// journal. Feed invokes read once for each part.
func Feed(f store.Feed, after int64, limit int, read func(*FeedPart) error) (entries []store.FeedEntry, newest int64, err error) {
	for {
		p := FeedPart{Feed: f, After: after, Limit: limit - len(entries)}
		if err := read(&p); err != nil {
			return nil, 0, err
		}
		p.sort()
		for _, c := range p.Found {
			entries = append(entries, c.Entry())
		}
		if after = p.After; p.Complete || len(entries) >= limit {
			return entries, p.Newest, nil
		}
	}
}

// Cut reports whether the limit is reached. It then drops the entries beyond the limit.
func (p *FeedPart) Cut() bool {
	if len(p.Found) < p.Limit {
		return false
	}
	p.sort()
	p.Found = p.Found[:p.Limit]
	p.After = p.Found[p.Limit-1].Position
	return true
}

func (p *FeedPart) sort() {
	slices.SortFunc(p.Found, func(a, b Chunk) int { return cmp.Compare(a.Position, b.Position) })
}
