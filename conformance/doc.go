// Package conformance describes the behaviour of the API in transcripts and plays them against a running daemon.
//
// A transcript is a text file with requests of several principals and the expected answers. It does not depend on Go or on the inside of
// the daemon, so it can test a client or daemon in any language. README.md describes the format. A transcript uses new ids each time it is
// played. It can therefore be played several times, also against a daemon that serves other users.
//
// A transcript whose requirements the daemon does not meet counts as failed, never as skipped. [Run] reports what is missing.
// [Configuration] returns a configuration that meets all requirements.
package conformance
