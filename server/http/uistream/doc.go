// Package uistream translates the frames of a run to the UI message stream of the Vercel AI SDK, which useChat reads.
//
// A [Mapper] makes one assistant message of a run: a step for each turn, and a part for each call. It does no I/O. Its chunks are those that
// version 6 of the AI SDK accepts; version 7 gets the answers to approvals too. A client refuses the whole stream because of one chunk that it
// does not know, so nothing else is ever sent.
//
// Parts that the AI SDK has no chunk for are data parts, whose names begin with data-toold-. docs/reference/ai-sdk.md lists them.
package uistream
