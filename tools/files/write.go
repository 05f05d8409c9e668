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
			Description: "Writes a whole file of the workspace, new or in place of one that exists; missing folders are made. " +
				"A file that exists must have been read in this thread and not have changed since, unless overwrite is set. " +
				"Mode and CRLF line endings of a file that exists are kept.",
			Guidance: "Prefer edit for a change of part of a file: it shows less and loses less. Read a file before you write over it.",
			Parameters: json.RawMessage(`{
				"type": "object",
				"properties": {
					"path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "File to write, relative to the workspace, such as src/main.go"},
					"content": {"type": "string", "description": "All that the file is to hold"},
					"overwrite": {"type": "boolean", "description": "Replace the file even when it was not read in this thread, or changed since; default false"}
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
