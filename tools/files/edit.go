package files

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/toold-dev/toold/tool"
)

const maxEdits = 100

func newEdit(f *family) *mutation {
	worst, mildest := mutating()
	return &mutation{
		family: f, verb: "Edit",
		check: func(args tool.Arguments) error { return checkEdits(editsOf(args), "") },
		next: func(name string, args tool.Arguments, now snapshot) (revision, error) {
			return apply(name, editsOf(args), now, f.limits.FileSize)
		},
		descriptor: tool.Descriptor{
			ID: "edit", DisplayName: "Edit", Category: category, Version: toolVersion,
			Description: "Replaces old_text with new_text in a file of the workspace. old_text must match exactly, including white space " +
				"and indentation, and only once, unless replace_all is set. The file must have been read in this thread and not " +
				"have changed since, unless overwrite is set. Line endings and mode do not change.",
			Guidance: "Include enough surrounding lines in old_text to make it unique; omit the line numbers that read shows.",
			Parameters: json.RawMessage(`{
				"type": "object",
				"properties": {
					"path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "File to edit, relative to the workspace, such as src/main.go"},
					"old_text": {"type": "string", "minLength": 1, "description": "Text to replace, exactly as in the file"},
					"new_text": {"type": "string", "description": "The replacement; an empty text deletes old_text"},
					"replace_all": {"type": "boolean", "description": "Replace every occurrence; with false, the default, there must be exactly one"},
					"overwrite": {"type": "boolean", "description": "Edit the file even if it was not read in this thread or has changed since; default false"}
				},
				"required": ["path", "old_text", "new_text"],
				"additionalProperties": false
			}`),
			Effects: worst, Mildest: mildest, MaxArguments: editArguments, RequiredIsolation: tool.IsolationNone,
		},
	}
}

func newMultiEdit(f *family) *mutation {
	worst, mildest := mutating()
	return &mutation{
		family: f, verb: "Edit",
		check: func(args tool.Arguments) error { return checkEdits(editsOf(args), "edits") },
		next: func(name string, args tool.Arguments, now snapshot) (revision, error) {
			return apply(name, editsOf(args), now, f.limits.FileSize)
		},
		descriptor: tool.Descriptor{
			ID: "multi_edit", DisplayName: "Multi-edit", Category: category, Version: toolVersion,
			Description: "Makes several replacements in one file of the workspace, all or none. They are applied in order, each to the " +
				"result of the one before. Each follows the rules of edit: an exact match, only once unless replace_all is set.",
			Guidance: "Use it instead of several edits of the same file.",
			Parameters: json.RawMessage(`{
				"type": "object",
				"properties": {
					"path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "File to edit, relative to the workspace, such as src/main.go"},
					"edits": {
						"type": "array", "minItems": 1, "maxItems": 100,
						"description": "The replacements, in the order in which they are applied",
						"items": {
							"type": "object",
							"properties": {
								"old_text": {"type": "string", "minLength": 1, "description": "Text to replace, exactly as in the file"},
								"new_text": {"type": "string", "description": "The replacement; an empty text deletes old_text"},
								"replace_all": {"type": "boolean", "description": "Replace every occurrence; with false, the default, there must be exactly one"}
							},
							"required": ["old_text", "new_text"],
							"additionalProperties": false
						}
					},
					"overwrite": {"type": "boolean", "description": "Edit the file even if it was not read in this thread or has changed since; default false"}
				},
				"required": ["path", "edits"],
				"additionalProperties": false
			}`),
			Effects: worst, Mildest: mildest, MaxArguments: editArguments, RequiredIsolation: tool.IsolationNone,
		},
	}
}

// replacement is one edit. field is its path in the arguments, for messages.
type replacement struct {
	field    string
	old, new string
	all      bool
}

func editsOf(args tool.Arguments) []replacement {
	list, several := args.Value()["edits"].([]any)
	if !several {
		return []replacement{{"", args.String("old_text"), args.String("new_text"), flag(args, "replace_all")}}
	}
	edits := make([]replacement, 0, len(list))
	for i, item := range list {
		object, _ := item.(map[string]any)
		e := tool.NewArguments("", object)
		edits = append(edits, replacement{fmt.Sprintf("edits[%d]", i), e.String("old_text"), e.String("new_text"), flag(e, "replace_all")})
	}
	return edits
}

func checkEdits(edits []replacement, field string) error {
	if len(edits) == 0 || len(edits) > maxEdits {
		return invalid(field, "", "must hold 1 to %d edits", maxEdits)
	}
	for _, e := range edits {
		at := strings.TrimPrefix(e.field+".", ".")
		switch {
		case e.old == "":
			return invalid(at+"old_text", "", "is empty; give the text to replace, or use write to create a file")
		case e.old == e.new:
			return invalid(at+"new_text", "", "is the same as old_text, so nothing would change")
		}
	}
	return nil
}

// apply makes all the edits. When an edit cannot be made, it returns an error for this edit with the reason.
func apply(name string, edits []replacement, now snapshot, most int64) (revision, error) {
	if !now.exists() {
		return revision{}, refuse(reasonNotFound, "%s does not exist. Use write to create a file, glob to find one.", quote(name))
	}
	if isBinary(now.content) {
		return revision{}, refuse(reasonBinary, "%s is a binary file and cannot be edited as text.", quote(name))
	}
	text := string(now.content)
	crlf := usesCRLF(text)
	if crlf {
		text = toLF(text)
	}
	var total int
	for _, e := range edits {
		if crlf {
			e.old, e.new = toLF(e.old), toLF(e.new)
		}
		n := strings.Count(text, e.old)
		if err := e.fits(name, text, n); err != nil {
			return revision{}, err
		}
		if size := int64(len(text)) + int64(n)*int64(len(e.new)-len(e.old)); size > most {
			return revision{}, tooLarge(name, size, most)
		}
		text = strings.ReplaceAll(text, e.old, e.new)
		total += n
	}
	if crlf {
		text = toCRLF(text)
	}
	done := fmt.Sprintf("Replaced %d occurrences", total)
	if total == 1 {
		done = "Replaced 1 occurrence"
	}
	return revision{content: []byte(text), replacements: total, done: done}, nil
}

// fits returns an error when the text to replace occurs too few or too many times.
func (e replacement) fits(name, text string, n int) error {
	which := "old_text"
	if e.field != "" {
		which = e.field + ".old_text"
	}
	switch {
	case n == 0:
		return refuse(reasonNoMatch, "%s was not found in %s; the file was not changed.%s", which, quote(name), hint(text, e.old))
	case n > 1 && !e.all:
		return refuse(reasonNotUnique, "%s matches %d times in %s, at %s; the file was not changed. Include more of the surrounding text to select one, or set replace_all.",
			which, n, quote(name), linesOf(text, e.old))
	}
	return nil
}

// linesOf returns the line numbers at which old occurs in text.
func linesOf(text, old string) string {
	const most = 10
	var at []string
	line, pos := 1, 0
	for {
		i := strings.Index(text[pos:], old)
		if i < 0 {
			break
		}
		if len(at) == most {
			at = append(at, "…")
			break
		}
		line += strings.Count(text[pos:pos+i], "\n")
		at = append(at, fmt.Sprint(line))
		line += strings.Count(old, "\n")
		pos += i + len(old)
	}
	return "lines " + strings.Join(slices.Compact(at), ", ")
}

// hint returns advice for the model when old does not occur in text.
func hint(text, old string) string {
	if strings.Contains(text, "\r\n") && strings.Contains(old, "\n") {
		return " The file mixes CRLF and LF line endings, so a text of several lines may not match; edit line by line."
	}
	const mostWant, mostHave = 200, 200_000 // maximum numbers of lines of old and of text, because a hint must not take much time
	want, have := trimmedLines(old), trimmedLines(text)
	if len(want) <= mostWant && len(have) <= mostHave {
		for i := 0; i+len(want) <= len(have); i++ {
			if slices.Equal(have[i:i+len(want)], want) {
				return fmt.Sprintf(" Line %d matches except for white space or indentation: read it and copy it exactly.", i+1)
			}
		}
	}
	return " Read the file and copy the text exactly, without line numbers."
}

func trimmedLines(s string) []string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return lines
}
