// Package files is the family of tools that work on the files of one workspace: read, write, edit, multi_edit, glob and
// grep.
//
// The tools reach the machine through a [Workspace] alone; [Local] is the one over an [os.Root]. No path leads out of
// it: not by "..", not by a link, not by a second name (hard link), and what is no regular file or directory is refused
// after it was opened without waiting. No answer names a path of the host.
//
// A thread may change only what it knows. read remembers the hash of what it showed in a THREAD document, one for each
// path ("files.read/" + path); write, edit and multi_edit refuse a file that the thread has not read, or that is
// another than the one it read, unless the call says overwrite. What a person approved holds as well: when the file is
// no longer the one that the ticket showed, the call ends with FILE_CHANGED and the file stays as it is, overwrite or
// not.
//
// A file is replaced whole, by rename, or not at all; a crash may leave a ".toold-….tmp" beside it, which glob and grep
// do not show. Mode, owner where that is allowed, and CRLF line endings stay.
//
// Symbolic links that stay inside the workspace are followed when a path names them, and never while walking.
package files
