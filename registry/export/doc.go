// Package export translates tools to the formats of model providers: OpenAI, Anthropic, Gemini and MCP.
//
// Each provider has its own rules for names and schemas, and refuses the whole list when one tool breaks them. The export replaces keywords
// that a provider does not support with a text in the description, and adds a note about the change. A change may restrict the arguments
// that a model can send, or describe them less exactly. The daemon always checks arguments against the tool's own schema. [Tool.Nulls]
// describes the one exception.
//
// The same descriptors give the same bytes.
package export
