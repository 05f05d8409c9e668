// Package rows has the reading parts that the SQLite and PostgreSQL stores share: the checksums and the decoding of rows, the reads of
// small tables, pages, logs and feeds, and the comparison of a copied journal with its original. Package group has the writing parts.
//
// A [Reader] does these reads. A store embeds a Reader and provides the SQL texts. Reading a row with a wrong checksum or form returns
// store.ErrCorrupt; other rows are not affected.
package rows
