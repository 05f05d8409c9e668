// Package follow keeps the data that a frontend shows of the calls of a run: the tools, the questions, and the last part of each output
// stream. A [Follower] reads the frames of a watch and reports changes to a [View]. The view writes the messages of its protocol. The
// package does no I/O.
package follow
