// Package uistream translates the frames of a run to the UI message stream of the Vercel AI SDK, which useChat reads.
//
// A [Mapper] makes one assistant message of a run: a step for each turn, and a part for each call. The package does no I/O. It sends only
// chunks that version 6 of the AI SDK accepts, and to version 7 also chunks for the answers to approvals. It sends no other chunk, because
// a client refuses the whole stream when it gets one unknown chunk.
//
// When the AI SDK has no chunk for something, the package sends a data part, whose name begins with data-toold-. docs/reference/ai-sdk.md
// lists these parts.
package uistream
