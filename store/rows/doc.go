// Package rows has the parts that the SQLite and PostgreSQL stores share: the checksums and the decoding of rows, and the reads of small
// tables.
//
// A [Reader] does these reads; a store embeds it and provides the SQL texts. A row with a wrong checksum or form gives store.ErrCorrupt;
// other rows are not affected.
package rows
