// Package rows is what the tables of SQLite and PostgreSQL have in common: the checksums of their rows, their decoding, and the
// reads of small tables.
//
// A [Reader] has the reads; a store embeds it and gives it the text of each query. A row whose checksum or form is wrong
// is refused alone, with store.ErrCorrupt.
package rows
