// Package faultfs simulates a disk for tests. It is a layer between SQLite and the files in some directories. It records writes and syncs,
// and returns errors that the test chooses.
//
// A [Disk] covers a directory and records the operations of SQLite as a list of [Op] values. The real files change as usual, so the layer
// is invisible to the journal. [Power] replays the operations and simulates a power loss after any of them.
//
// SQLite has one table of file systems for each process. The first Disk registers the layer in this table permanently, as the default.
// Operations on files that no Disk covers are passed on unchanged.
package faultfs
