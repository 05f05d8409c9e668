// Package follow keeps what a frontend shows of the calls of a run: their names, questions and the ends of their outputs. A [Follower] reads the
// frames of a watch and tells a [View] what changed. The view writes the messages of its protocol. It does no I/O.
package follow
