package registry

import (
	"container/list"
	"crypto/sha256"
	"encoding/json"
	"sync"
)

// maxCachedBytes limits the texts of the cached schemas. A compiled schema is about ten times as large as its text.
const maxCachedBytes = 2 << 20

// A schemaCache keeps the most recently used schemas by the hash of their text.
type schemaCache struct {
	most          int
	assertFormats bool

	mu    sync.Mutex
	bytes int
	order *list.List // *cachedSchema values, the most recently used first
	byKey map[[sha256.Size]byte]*list.Element
}

type cachedSchema struct {
	key    [sha256.Size]byte
	bytes  int
	schema *Schema
}

func newSchemaCache(most int, assertFormats bool) *schemaCache {
	return &schemaCache{most: most, assertFormats: assertFormats, order: list.New(), byKey: map[[sha256.Size]byte]*list.Element{}}
}

// compile returns the schema of a text. Two callers with a new text may both compile it. Refused schemas are not cached.
func (c *schemaCache) compile(raw json.RawMessage) (*Schema, error) {
	if len(raw) > MaxSchemaBytes {
		return c.fresh(raw) // fresh refuses the text, so it need not be hashed.
	}
	key := sha256.Sum256(raw)
	if s := c.get(key); s != nil {
		return s, nil
	}
	s, err := c.fresh(raw)
	if err != nil {
		return nil, err
	}
	c.put(&cachedSchema{key, len(raw), s})
	return s, nil
}

// fresh compiles a schema without caching it.
func (c *schemaCache) fresh(raw json.RawMessage) (*Schema, error) {
	return compileSchema(raw, c.assertFormats)
}

func (c *schemaCache) get(key [sha256.Size]byte) *Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.byKey[key]
	if !ok {
		return nil
	}
	c.order.MoveToFront(el)
	return el.Value.(*cachedSchema).schema
}

func (c *schemaCache) put(s *cachedSchema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.byKey[s.key]; there {
		return
	}
	c.byKey[s.key] = c.order.PushFront(s)
	c.bytes += s.bytes
	for c.order.Len() > c.most || c.bytes > maxCachedBytes {
		last := c.order.Remove(c.order.Back()).(*cachedSchema)
		delete(c.byKey, last.key)
		c.bytes -= last.bytes
	}
}
