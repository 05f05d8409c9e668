// Package export translates tools to the formats of model providers: OpenAI, Anthropic, Gemini and MCP.
//
// Each provider has its own rules for names and schemas, and refuses the whole list when one tool breaks them. The export replaces what a
// provider does not support by a text in the description, and adds a note about the change. A change narrows what a model may send, or
// describes it less exactly; the daemon always checks arguments against the tool's own schema. [Tool.Nulls] has the one exception.
//
// The same descriptors give the same bytes.
package export
