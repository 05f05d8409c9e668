package files

import (
	"encoding/json"

	"github.com/toold-dev/toold/tool"
)

func newWrite(f *family) *mutation {
	worst, mildest := mutating()
	return &mutation{
		family: f, verb: "Write",
		check: func(tool.Arguments) error { return nil },
		next:  writeNext,
		descriptor: tool.Descriptor{
			ID: "write", DisplayName: "Write", Category: category, Version: toolVersion,
			Description: "Writes a whole file of the workspace: creates it or replaces its content. Missing folders are created. " +
				"An existing file must have been read in this thread and not have changed since, unless overwrite is set. " +
				"Mode and CRLF line endings of an existing file are kept.",
			Guidance: "Prefer edit to change part of a file: its result is shorter and the rest cannot be lost. Read a file before you replace it.",
			Parameters: json.RawMessage(`{
				"type": "object",
				"properties": {
					"path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "File to write, relative to the workspace, such as src/main.go"},
					"content": {"type": "string", "description": "The complete content of the file"},
					"overwrite": {"type": "boolean", "description": "Replace the file even if it was not read in this thread or has changed since; default false"}
				},
				"required": ["path", "content"],
				"additionalProperties": false
			}`),
			Effects: worst, Mildest: mildest, MaxArguments: editArguments, RequiredIsolation: tool.IsolationNone,
		},
	}
}

func writeNext(_ string, args tool.Arguments, now snapshot) (revision, error) {
	content := args.String("content")
	if usesCRLF(string(now.content)) {
		content = toCRLF(toLF(content))
	}
	done := "Wrote"
	if !now.exists() {
		done = "Created"
	}
	return revision{content: []byte(content), done: done}, nil
}
