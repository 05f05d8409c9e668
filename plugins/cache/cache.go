// Package cache answers read-only calls with the result of an earlier, equal call.
//
// It is a [hook.After], which stores results, and a [hook.Gate], which returns them instead of running the tool. The gate has no side
// effects, so it may be asked at any time, also by DescribeCall. It does not even record when a result was last used. Like every gate's
// answer, its answer is valid only for the moment: when the stored result is removed before the gate is asked again, the tool runs.
//
// The key of a result contains everything that the result may depend on: the namespace, the caller, the person behind the caller, the tool
// and its digest, the canonical arguments, and the revisions of the documents in the cache's rule. A rule can add the run or the thread, or
// leave out the caller: see [Share]. The cache stores only a SUCCESS of a tool's first attempt. It stores no result with artifacts or
// document commands, because these belong to their call.
package cache

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/setting"
	"github.com/toold-dev/toold/tool"
)

// Metadata of a result from the cache.
const (
	MetadataCall = "cache_call_id" // ID of the call that ran the tool
	MetadataTime = "cache_time"    // time of that call, RFC 3339
)

// A Cache is a [hook.Gate] and a [hook.After].
type Cache struct {
	mu      sync.RWMutex
	cfg     Config
	entries map[digest]*list.Element
	order   list.List // values are *entry, oldest first
	bytes   int64
}

type digest [sha256.Size]byte

// entry is a stored result. It is immutable.
type entry struct {
	key             digest
	namespace, call string
	run             string // run at whose end the result is removed; may be empty
	result          *tool.Result
	made, until     time.Time
	bytes           int64
}

// New returns a cache.
func New(cfg Config) (*Cache, error) {
	c := &Cache{entries: map[digest]*list.Element{}}
	if err := c.Swap(cfg); err != nil {
		return nil, err
	}
	return c, nil
}

// Swap replaces the rules and removes all stored results. After an error nothing has changed.
func (c *Cache) Swap(cfg Config) error {
	setting.Fill(&cfg)
	if err := setting.Check(&cfg).Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfg = cfg
	clear(c.entries)
	c.order.Init()
	c.bytes = 0
	return nil
}

// Check implements [hook.Gate].
func (c *Cache) Check(_ context.Context, in *hook.Input) (hook.Verdict, error) {
	c.mu.RLock()
	rules := c.cfg.Rules // replaced as a whole, never modified
	c.mu.RUnlock()
	r := ruleFor(rules, in)
	if r == nil {
		return hook.Allow(), nil
	}
	key, err := keyOf(r, in)
	if err != nil {
		return hook.Allow(), nil //nolint:nilerr // the tool answers what cannot be looked up
	}
	e := c.find(key, time.Now())
	if e == nil {
		return hook.Allow(), nil
	}
	result := *e.result
	result.Content = slices.Clone(result.Content)
	result.Metadata = maps.Clone(result.Metadata)
	if result.Metadata == nil {
		result.Metadata = map[string]string{}
	}
	result.Metadata[MetadataCall], result.Metadata[MetadataTime] = e.call, e.made.UTC().Format(time.RFC3339)
	return hook.SetResult(&result).Because("from the cache: the result of call " + e.call), nil
}

func (c *Cache) find(key digest, now time.Time) *entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if at := c.entries[key]; at != nil {
		if e := at.Value.(*entry); now.Before(e.until) {
			return e
		}
	}
	return nil
}

// After implements [hook.After]. It does not change the outcome.
func (c *Cache) After(_ context.Context, in *hook.Input, o hook.Outcome) (hook.AfterResult, error) {
	if !lasting(in, &o) {
		return hook.AfterResult{}, nil
	}
	c.mu.RLock()
	rules := c.cfg.Rules
	c.mu.RUnlock()
	r := ruleFor(rules, in)
	if r == nil {
		return hook.AfterResult{}, nil
	}
	key, err := keyOf(r, in)
	if err != nil {
		return hook.AfterResult{}, err
	}
	kept := &tool.Result{
		Status: tool.StatusSuccess, Data: o.Result.Data, Message: o.Result.Message, Content: slices.Clone(o.Result.Content),
		Display: o.Result.Display, Metadata: maps.Clone(o.Result.Metadata),
	}
	now := time.Now()
	c.put(&entry{
		key: key, namespace: in.Namespace, call: in.CallID, run: r.runOf(in), result: kept, made: now, until: now.Add(r.TTL), bytes: weight(kept) + overhead,
	})
	return hook.AfterResult{}, nil
}

// lasting reports whether another call may get the outcome. The outcome must be a complete success of the tool itself, from an attempt that
// did not depend on an answer. It must contain nothing that belongs to its call.
func lasting(in *hook.Input, o *hook.Outcome) bool {
	r := o.Result
	return o.Status == call.Succeeded && o.Executed == call.Finished && r.IsSuccess() && in.Attempt == 1 &&
		len(r.Artifacts) == 0 && len(r.Documents) == 0 && !r.Truncated &&
		!slices.ContainsFunc(r.Content, func(c tool.Content) bool { return c.Artifact != "" })
}

func (c *Cache) put(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.bytes > c.cfg.Bytes/4 { // Storing this result would remove too many others.
		return
	}
	if old := c.entries[e.key]; old != nil {
		c.dropLocked(old)
	}
	for at := c.order.Front(); at != nil; at = c.order.Front() {
		if len(c.entries) < c.cfg.Entries && c.bytes+e.bytes <= c.cfg.Bytes && e.made.Before(at.Value.(*entry).until) {
			break
		}
		c.dropLocked(at)
	}
	c.entries[e.key] = c.order.PushBack(e)
	c.bytes += e.bytes
}

func (c *Cache) dropLocked(at *list.Element) {
	e := c.order.Remove(at).(*entry)
	delete(c.entries, e.key)
	c.bytes -= e.bytes
}

// PurgeCalls implements [hook.CallDataOwner].
func (c *Cache) PurgeCalls(namespace string, ids []string) {
	c.forget(func(e *entry) bool { return e.namespace == namespace && slices.Contains(ids, e.call) })
}

// EndRun implements [hook.RunDataOwner]. It removes the results of the run, because the documents of the run are deleted too. A later run with
// the same name could have documents with the same revision numbers, and would get old results.
func (c *Cache) EndRun(namespace, run string) {
	c.forget(func(e *entry) bool { return e.namespace == namespace && e.run == run && run != "" })
}

func (c *Cache) forget(matches func(*entry) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := c.order.Front(); at != nil; {
		next := at.Next()
		if matches(at.Value.(*entry)) {
			c.dropLocked(at)
		}
		at = next
	}
}

// Size returns the number of stored results and their bytes.
func (c *Cache) Size() (entries int, bytes int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.entries), c.bytes
}

// overhead is the approximate size in bytes of an entry without its result.
const overhead = 512

func weight(r *tool.Result) int64 {
	n := len(r.Data) + len(r.Message)
	for i := range r.Content {
		c := &r.Content[i]
		n += 128 + len(c.Text) + len(c.Data) + len(c.MIMEType) + len(c.URI) + len(c.Name)
	}
	for k, v := range r.Metadata {
		n += 64 + len(k) + len(v)
	}
	return int64(n)
}

// keyOf returns a digest of everything that the result of a call may depend on. It writes the length before each part, so that different
// parts never give the same bytes. It returns an error when a document cannot be read.
func keyOf(r *Rule, in *hook.Input) (digest, error) {
	var room [1024]byte
	b := room[:0]
	part := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	part(in.Namespace)
	part(string(r.Share))
	switch r.Share {
	case ShareNamespace:
	case ShareRun:
		part(in.Run.ID)
	case ShareThread:
		part(in.Run.Thread)
	}
	if r.Share != ShareNamespace {
		part(in.Caller.Subject)
		part(in.OnBehalfOf)
		b = binary.AppendUvarint(b, uint64(len(in.Caller.Roles)))
		for _, role := range in.Caller.Roles {
			part(role)
		}
	}
	part(in.Descriptor.ID)
	part(in.ToolDigest)
	part(in.Arguments.Text())
	for i := range r.Documents {
		d := &r.Documents[i]
		var doc tool.Document
		if in.Documents != nil {
			var err error
			if doc, _, err = in.Documents.Get(d.Scope, d.Key); err != nil {
				return digest{}, err
			}
		}
		part(string(d.Scope))
		part(scopeOf(in, d.Scope))
		part(d.Key)
		b = binary.AppendVarint(b, doc.Revision)
	}
	return sha256.Sum256(b), nil
}

func scopeOf(in *hook.Input, s tool.Scope) string {
	switch s {
	case tool.RunScope:
		return in.Run.ID
	case tool.ThreadScope:
		return in.Run.Thread
	}
	return in.Namespace
}
