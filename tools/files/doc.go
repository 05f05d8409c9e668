// Package files provides the tools for the files of one workspace: read, write, edit, multi_edit, glob and grep.
//
// The tools access the machine only through a [Workspace]; [Local] is the one for an [os.Root]. No path leads out of the workspace: not
// with "..", not through a symbolic link, and not through a hard link. Anything but regular files and directories is refused; opening it
// never blocks. No answer contains a path of the host.
//
// A thread may change only files that it has read. read stores the hash of the file in a THREAD document for each path ("files.read/" +
// path). write, edit and multi_edit refuse a file that the thread has not read, or that has changed since, unless the call sets overwrite.
// An approval is bound to the content too. When the file has changed since the ticket showed it, the call ends with FILE_CHANGED and the
// file stays unchanged, even with overwrite.
//
// A file is replaced as a whole, by a rename, or not at all. A crash may leave a ".toold-….tmp" file beside it, which glob and grep omit.
// The mode, CRLF line ends and, where permitted, the owner are kept.
//
// Symbolic links inside the workspace are followed when a path names them, but never during a walk.
package files
