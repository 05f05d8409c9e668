package sqlite

import (
	"slices"
	"sync"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// What a documentCache keeps, at most.
const (
	cachedDocumentBytes = 4 << 20
	cachedDocumentLists = 4096
)

// A documentCache keeps lists of documents between two changes of any document: a conversation that reads files asks for the
// same list with each call.
type documentCache struct {
	mu    sync.Mutex
	age   uint64 // counts changes; a list that was read before one is not kept
	lists map[documentsKey][]tool.Document
	bytes int
}

// documentsKey is what one list was asked for by. A call has three scopes at most.
type documentsKey struct {
	namespace string
	scopes    [3]store.DocumentScope
}

func keyOfDocuments(namespace string, scopes []store.DocumentScope) (k documentsKey, ok bool) {
	k.namespace = namespace
	return k, copy(k.scopes[:], scopes) == len(scopes)
}

// get returns a list, or the age that put wants back.
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

// changed forgets all lists. The writer calls it after a commit and before the commit is acknowledged.
func (c *documentCache) changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.age++
	c.lists, c.bytes = nil, 0
}
