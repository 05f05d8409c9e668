// Package conformance holds the behaviour of the API as transcripts, and plays them against a running daemon.
//
// A transcript is a text file: requests as one of some people sends them, and what has to come back. It knows nothing of the
// daemon's insides or of Go, so that a client or a daemon in any language can be held to it; README.md describes the format.
// Ids are drawn anew each time a transcript is played, so that it can be played again, and on a daemon that others use.
//
// What a transcript needs and the daemon does not have is a failure, never left out: [Run] says what is missing, and
// [Configuration] is what a daemon needs to have everything.
package conformance
