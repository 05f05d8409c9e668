// Package group is the writer of a journal in a database: the part that SQLite and PostgreSQL share.
//
// One goroutine writes. It takes the ops that wait, Full changes first, and commits them as one group. An [Op] is a change
// of a call, or a function that has a transaction of its own. A [Plan] is a group on its way: the [Database] reads
// what the plan asks for, the plan decides which changes may commit and what they write, and the Database
// writes that and commits. A refused change writes nothing. A group that fails as a whole is tried again one op at a time.
//
// [Admit] is the only place that decides whether a change may commit; package memory uses it too.
package group
