// Package rows contains the code that the SQLite and PostgreSQL stores share: the checksums and the decoding of rows, and the reads of
// small tables.
//
// A [Reader] does these reads. A store embeds a Reader and provides the SQL texts. Reading a row with a wrong checksum or form returns
// store.ErrCorrupt; other rows are not affected.
package rows
