package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Sourced registers the tools of external sources. If some tools of a source are invalid, it registers only the others.
type Sourced struct{ Registry *registry.Registry }

// Replace makes tools the only tools of a source. It returns the reason for each tool that it left out, by id.
func (s Sourced) Replace(source string, tools []tool.Tool) map[string]error {
	refused := map[string]error{}
	good := slices.DeleteFunc(slices.Clone(tools), func(t tool.Tool) bool {
		_, err := s.Registry.Declared(source, t)
		if err != nil {
			refused[t.Descriptor().ID] = err
		}
		return err != nil
	})
	for {
		err := s.Registry.Replace(source, good...)
		if err == nil {
			return refused
		}
		before := len(good)
		taken, _ := errors.AsType[*registry.DuplicateError](err)
		good = slices.DeleteFunc(good, func(t tool.Tool) bool {
			d := t.Descriptor()
			mine := taken == nil || d.ID == taken.Tool
			if mine {
				refused[d.ID] = err
			}
			return mine
		})
		if len(good) == before {
			return refused // Nothing could be registered, so the source keeps its earlier tools.
		}
	}
}

// listKind is the kind of the records that store an MCP server's list of tools.
const listKind = "mcp_list"

// Lists stores the list of tools that each MCP server sent last.
type Lists struct {
	store PinStore

	mu    sync.Mutex
	known map[string][]byte
}

type listRecord struct {
	Key  string          `json:"key"`
	List json.RawMessage `json:"list"`
}

// OpenLists reads the stored lists.
func OpenLists(ctx context.Context, s PinStore) (*Lists, error) {
	l := &Lists{store: s, known: map[string][]byte{}}
	for after := int64(0); ; {
		records, err := s.Records(ctx, "", listKind, after, 50)
		if err != nil {
			return l, fmt.Errorf("lists of MCP servers: %w", err)
		}
		if len(records) == 0 {
			return l, nil
		}
		for _, r := range records {
			var kept listRecord
			if err := json.Unmarshal(r.Bytes, &kept); err != nil {
				return l, fmt.Errorf("list of MCP server %q: %w", r.Key, err)
			}
			l.known[kept.Key] = kept.List // the newest record is the last one
			after = r.Position
		}
	}
}

// Recall returns the list of a server.
func (l *Lists) Recall(key string) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, ok := l.known[key]
	return list, ok
}

// Keep stores the list of a server. The list is durable when Keep returns.
func (l *Lists) Keep(key string, list []byte) error {
	text, err := json.Marshal(listRecord{key, list})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := l.store.PutRecord(ctx, "", store.Record{Kind: listKind, Key: key, Bytes: text}); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[key] = list
	return nil
}
