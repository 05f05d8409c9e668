package sqlite

import (
	"github.com/toold-dev/toold/store/group"
)

func (w *writer) writeSuspension(n group.Name, s group.Suspension) error {
	return exec(w.conn, `INSERT INTO suspensions (namespace, id, call, action, open, expires) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET action = excluded.action, open = excluded.open, expires = excluded.expires WHERE call = excluded.call`,
		n.Namespace, n.ID, s.Call, s.Action, s.Open, s.Expires)
}

const insertDecision = "INSERT INTO decisions (namespace, id, crc, decision) VALUES (?, ?, ?, ?)"

const (
	selectDue = "SELECT " + callColumns + ` FROM suspensions INDEXED BY suspensions_expires CROSS JOIN calls ON position = call
		WHERE open = 1 AND expires <= ? AND suspensions.namespace = ? ORDER BY expires LIMIT ? OFFSET ?`
	selectDueNamespaces = "SELECT DISTINCT namespace FROM suspensions INDEXED BY suspensions_expires WHERE open = 1 AND expires <= ?"
	selectNextExpiry    = "SELECT min(expires) FROM suspensions INDEXED BY suspensions_expires WHERE open = 1 AND expires IS NOT NULL"
)
