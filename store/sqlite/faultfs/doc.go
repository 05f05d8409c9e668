// Package faultfs is a disk for tests: a layer between SQLite and the files of some directories, which keeps what was
// written and when it was synced, and fails as it is told.
//
// A [Disk] covers a directory. It sees what SQLite does to the files there: the real files change as they always do, so
// that the journal above does not know of it. Its [Op] log can be cut at any operation as a power cut does ([Cut]).
//
// SQLite has one table of file systems for a process. The first Disk puts the layer there for good and makes it the
// default; files that no Disk covers go through untouched.
package faultfs
