package sqlite

import (
	"github.com/toold-dev/toold/call"
)

// blockSize is how many positions a row of the table members covers: one for each bit of an integer.
const blockSize = 64

// A member identifies a namespace, caller, run or thread. The table members says which calls belong to it.
type member struct{ namespace, kind, name string }

// The kinds of members.
const (
	inNamespace = "namespace"
	ofCaller    = "caller"
	inRun       = "run"
	inThread    = "thread"
)

// addMembers adds the memberships of a new call. They are written at the end of the group, or when the next block of positions begins.
func (w *writer) addMembers(c *call.Call, position int64) error {
	if block := position / blockSize; block != w.block {
		if err := w.writeMembers(); err != nil {
			return err
		}
		w.block = block
	}
	w.addMember(member{c.Namespace, inNamespace, ""}, position)
	w.addMember(member{c.Namespace, ofCaller, c.Caller.Subject}, position)
	if c.Run.ID != "" {
		w.addMember(member{c.Namespace, inRun, c.Run.ID}, position)
	}
	if c.Run.Thread != "" {
		w.addMember(member{c.Namespace, inThread, c.Run.Thread}, position)
	}
	return nil
}

func (w *writer) addMember(m member, position int64) {
	bits := w.members[m]
	if bits == 0 {
		w.s.ids.add(m)
	}
	w.members[m] = bits | 1<<(position%blockSize)
}

// writeMembers writes the collected memberships.
func (w *writer) writeMembers() error {
	for m, bits := range w.members {
		err := exec(w.conn, `INSERT INTO members (namespace, kind, name, block, bits) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET bits = bits | excluded.bits`, m.namespace, m.kind, m.name, w.block, int64(bits))
		if err != nil {
			return err
		}
	}
	clear(w.members)
	return nil
}

const deleteMembers = `DELETE FROM members WHERE block = ?1
	AND NOT EXISTS (SELECT 1 FROM calls WHERE position >= ?1 * 64 AND position < ?1 * 64 + 64)
	AND NOT EXISTS (SELECT 1 FROM packs WHERE position > ?1 * 64 - 8 AND position < ?1 * 64 + 64 AND last >= ?1 * 64)`

// forgetMembers removes the rows of a block that has no calls any more.
func (w *writer) forgetMembers(block int64) error {
	return exec(w.conn, deleteMembers, block)
}

// Parts of statements. Each bit that is set in a row of the table members stands for the position of one call.
const (
	membersOf  = "members m CROSS JOIN bit"
	memberAt   = "m.block * 64 + n"
	memberBits = " AND m.bits >> n & 1"
	// joinMember adds the row or the pack of the call to the result. If the call was trimmed, the columns of both are NULL.
	joinMember = " LEFT JOIN calls ON calls.position = " + memberAt + " LEFT JOIN packs ON packs.position = CASE WHEN calls.position IS NULL THEN" +
		" (SELECT position FROM packs WHERE position <= " + memberAt + " ORDER BY position DESC LIMIT 1) END AND packs.last >= " + memberAt
	memberIs = " AND (calls.position IS NOT NULL OR packs.position IS NOT NULL)"
)
