// Package faultfs is a simulated disk for tests. It is a layer between SQLite and the files of some directories. It records writes and
// syncs, and returns errors that the test chooses.
//
// A [Disk] covers a directory and records the operations of SQLite in its [Op] log. The real files change as usual, so the journal does not
// notice the layer. [Power] replays the log and simulates a power loss at any operation.
//
// SQLite has one table of file systems for each process. The first Disk registers the layer there permanently and makes it the default.
// Files that no Disk covers pass through unchanged.
package faultfs
