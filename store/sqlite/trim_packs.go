package sqlite

import (
	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/rows"
)

// trimPacks removes old packs. The calls of packs ended in the order of their positions.
func (w *writer) trimPacks(before call.Stamp, limit int) (trimmed []call.Key, err error) {
	for len(trimmed) < limit {
		var old []pack
		err := query(w.conn, selectPacks+"TRUE ORDER BY position", func(st *sqlite.Stmt) error {
			var p pack
			if p.read(st); p.updated >= int64(before) || len(old) > limit/packCalls {
				return rows.ErrEnough
			}
			old = append(old, p)
			return nil
		})
		if err != nil || len(old) == 0 {
			return trimmed, err
		}
		for i := 0; i < len(old) && len(trimmed) < limit; i++ { // Each pack in old is removed or unpacked.
			p := &old[i]
			if int64(limit-len(trimmed)) <= p.last-p.position { // The limit allows only a part of the pack. Turn its calls into rows, so that trimCalls can remove the first of them.
				return trimmed, w.unpack(p.position, p.updated)
			}
			some, err := w.trimPack(p)
			if err != nil {
				return nil, err
			}
			trimmed = append(trimmed, some...)
		}
	}
	return trimmed, nil
}

// trimPack removes a whole pack. If the thread of one of its calls has an open suspension, trimPack turns the pack into rows instead, so
// that trimCalls finds the calls later.
func (w *writer) trimPack(p *pack) ([]call.Key, error) {
	var rows []endedRow
	waits := false
	for at := p.position; at <= p.last && !waits; at++ {
		m, err := p.named(w.conn, at)
		if err != nil {
			return nil, err
		}
		r := m.row()
		if m.id != "" {
			rows = append(rows, endedRow{r, p.updated})
		}
		if r.Call != nil && r.Call.Run.Thread != "" {
			if waits, err = w.threadWaits(p.namespace, r.Call.Run.Thread); err != nil {
				return nil, err
			}
		}
	}
	if waits {
		return nil, w.unpack(p.position, p.updated)
	}
	if err := w.deletePack(p); err != nil {
		return nil, err
	}
	return w.replaceWithTombstones(rows)
}

func (w *writer) threadWaits(namespace, thread string) (waits bool, err error) {
	err = query(w.conn, "SELECT 1 FROM calls INDEXED BY calls_waiting WHERE namespace = ? AND thread_id = ? AND status = 'SUSPENDED' LIMIT 1", func(*sqlite.Stmt) error {
		waits = true
		return nil
	}, namespace, thread)
	return waits, err
}
