package registry

import (
	"encoding/json"

	"github.com/toold-dev/toold/tool"
)

// HasFast reports whether the schema has a fast check.
func (s *Schema) HasFast() bool { return s.fast != nil }

// Surely runs only the fast check.
func (s *Schema) Surely(v any) bool { return s.fast.surely(v) }

// ValidateByLibrary runs Validate without the fast check.
func (s *Schema) ValidateByLibrary(v any) []tool.Violation { return s.validate(v) }

// Formats returns the asserted formats.
func Formats() map[string]func(any) bool { return formats() }

// CompileSchema compiles without the cache of a registry.
func CompileSchema(raw json.RawMessage) (*Schema, error) { return compileSchema(raw, false) }
