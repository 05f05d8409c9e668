// Package group writes a journal to a database. SQLite and PostgreSQL share it.
//
// One goroutine writes. It takes the waiting ops, Full changes first, and commits them as one group. An [Op] is a change of a call, or a
// function with its own transaction. The writer makes a [Plan] of each group, and writes the group in three steps:
//
// 1. The [Database] reads the data that the plan asks for.
// 2. The plan decides which changes may commit and what they write.
// 3. The Database writes that data and commits.
//
// A refused change writes nothing. When a whole group fails, its ops are tried again one at a time, unless the disk is full or the store
// has stopped.
//
// Only [Admit] decides whether a change may commit. Package memory uses it too.
package group
