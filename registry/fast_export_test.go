package registry

import (
	"encoding/json"

	"github.com/toold-dev/toold/tool"
)

// HasFast reports whether there is a fast check of this schema.
func (s *Schema) HasFast() bool { return s.fast != nil }

// Surely is the fast check alone, which Validate does not expose.
func (s *Schema) Surely(v any) bool { return s.fast.surely(v) }

// ValidateByLibrary is Validate without the fast check.
func (s *Schema) ValidateByLibrary(v any) []tool.Violation { return s.validate(v) }

// Formats are those that are asserted.
func Formats() map[string]func(any) bool { return formats() }

// CompileSchema compiles without the cache of a registry.
func CompileSchema(raw json.RawMessage) (*Schema, error) { return compileSchema(raw, false) }
