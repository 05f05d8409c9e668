package sqlite

import (
	"slices"
	"sync"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// The bounds of a documentCache.
const (
	cachedDocumentBytes = 4 << 20
	cachedDocumentLists = 4096
)

// A documentCache keeps lists of documents until any document changes. It makes conversations that read files faster, because each of their
// calls reads the same list of documents.
type documentCache struct {
	mu    sync.Mutex
	age   uint64 // Counts changes. put ignores a list that was read before the last change.
	lists map[documentsKey][]tool.Document
	bytes int
}

// documentsKey identifies a list by its namespace and scopes. A call has at most three scopes.
type documentsKey struct {
	namespace string
	scopes    [3]store.DocumentScope
}

func keyOfDocuments(namespace string, scopes []store.DocumentScope) (k documentsKey, ok bool) {
	k.namespace = namespace
	return k, copy(k.scopes[:], scopes) == len(scopes)
}

// get returns a list. When ok is false, the caller passes age to put.
func (c *documentCache) get(k documentsKey) (docs []tool.Document, age uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	docs, ok = c.lists[k]
	return slices.Clone(docs), c.age, ok
}

func (c *documentCache) put(k documentsKey, docs []tool.Document, age uint64) {
	size := 256
	for _, d := range docs {
		size += 128 + len(d.Key) + len(d.ScopeID) + len(d.Value)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if age != c.age || size > cachedDocumentBytes/16 {
		return
	}
	if c.lists == nil || c.bytes+size > cachedDocumentBytes || len(c.lists) == cachedDocumentLists {
		c.lists, c.bytes = map[documentsKey][]tool.Document{}, 0
	}
	c.lists[k] = slices.Clone(docs)
	c.bytes += size
}

// changed drops all lists. The writer calls it after each commit that may change documents, before it acknowledges the commit.
func (c *documentCache) changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.age++
	c.lists, c.bytes = nil, 0
}
