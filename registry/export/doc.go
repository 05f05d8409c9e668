// Package export says what tools are in the words of those who call models: OpenAI, Anthropic, Gemini and MCP.
//
// Each provider takes names and schemas of its own kind and refuses the whole list when one of them is not. What a
// provider does not take is said in the description in its place, and a note tells what was changed. A change only ever
// narrows what a model may send, or says less of it: arguments are held against the tool's own schema in any case. The
// one exception is told by [Tool.Nulls].
//
// The same descriptors give the same bytes.
package export
