// Package files provides the tools for the files of one workspace: read, write, edit, multi_edit, glob and grep.
//
// The tools access files only through a [Workspace]; [Local] is a Workspace for an [os.Root]. No path leads out of the workspace: neither
// "..", nor a symbolic link, nor a hard link. The tools refuse everything except regular files and directories, and never block when they
// open one. No result contains a path of the host.
//
// A thread may change only files that it has read. read stores the hash of the file in a THREAD document for each path ("files.read/" +
// path). write, edit and multi_edit refuse a file that the thread has not read, or that has changed since, unless the call sets overwrite.
// An approval is valid for the content that the ticket showed. When the file has changed since then, the call ends with FILE_CHANGED and
// the file stays unchanged, even with overwrite.
//
// A file is replaced as a whole, by a rename, or not at all. A crash may leave a ".toold-….tmp" file beside it, which glob and grep omit.
// The new file keeps the mode, CRLF line ends and, where permitted, the owner.
//
// The tools follow a symbolic link inside the workspace when it is part of the path in the arguments, but not when a walk finds it.
package files
