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
	selectExpiring = "SELECT " + callColumns + `, expires FROM suspensions INDEXED BY suspensions_expires CROSS JOIN calls ON position = call
		WHERE open = 1 AND expires >= $1 AND (expires > $1 OR call > $2) AND suspensions.namespace = $3 ORDER BY expires, call LIMIT $4`
	selectActionsOf     = "SELECT action, count(*) FROM suspensions INDEXED BY suspensions_open WHERE open = 1 AND namespace = $1 GROUP BY action"
	selectDueNamespaces = "SELECT DISTINCT namespace FROM suspensions INDEXED BY suspensions_expires WHERE open = 1 AND expires <= ?"
	selectNextExpiry    = "SELECT min(expires) FROM suspensions INDEXED BY suspensions_expires WHERE open = 1 AND expires IS NOT NULL"
)
