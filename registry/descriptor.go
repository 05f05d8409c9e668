package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
)

// MaxInline is the maximum size of the inline output of a result, in bytes.
const MaxInline = 256 << 10

// The hard limits of a descriptor: bytes of texts, and numbers of aliases and of labels.
const (
	maxArguments   = 1 << 20
	maxName        = 128
	maxDescription = 16 << 10
	maxGuidance    = 64 << 10
	maxAliases     = 16
	maxLabels      = 64
)

// noParameters is the schema of a tool without parameters.
const noParameters = `{"type":"object","properties":{},"additionalProperties":false}`

// newEntry checks a tool and compiles its schemas. Its errors do not contain the name of the tool.
func newEntry(source string, t tool.Tool, compile func(json.RawMessage) (*Schema, error)) (*Entry, error) {
	d := t.Descriptor()
	d.Source = source
	d.Effects = d.Effects.Normal()
	if d.Mildest != nil {
		mildest := d.Mildest.Normal()
		d.Mildest = &mildest
	}
	if len(d.Parameters) == 0 {
		d.Parameters = json.RawMessage(noParameters)
	}
	if err := checkDescriptor(&d); err != nil {
		return nil, err
	}
	e := &Entry{Tool: t, Source: source}
	var err error
	if e.parameters, err = compileParameters(d.Parameters, compile); err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	if len(d.ResultSchema) > 0 {
		if e.result, err = compile(d.ResultSchema); err != nil {
			return nil, fmt.Errorf("result_schema: %w", err)
		}
	}
	if e.Digest, err = d.Digest(); err != nil {
		return nil, fmt.Errorf("digest: %w", err)
	}
	e.Descriptor, e.own, e.ownDigest, e.claim = d, d, e.Digest, e.Digest
	if c, ok := t.(tool.Claimer); ok {
		if e.claim, err = c.Claimed().Digest(); err != nil {
			return nil, fmt.Errorf("digest: %w", err)
		}
	}
	return e, nil
}

// compileParameters compiles the schema of parameters. It refuses a schema for values other than objects, because arguments are always an
// object.
func compileParameters(raw json.RawMessage, compile func(json.RawMessage) (*Schema, error)) (*Schema, error) {
	s, err := compile(raw)
	if err != nil {
		return nil, err
	}
	m, ok := s.document.(map[string]any)
	if !ok {
		return nil, &SchemaError{"#", "want an object: arguments have names"}
	}
	if t, ok := m["type"]; ok && t != "object" {
		return nil, &SchemaError{"#/type", `want "object": arguments have names`}
	}
	return s, nil
}

func checkDescriptor(d *tool.Descriptor) error {
	return errors.Join(
		tool.ValidName(d.ID),
		checkAliases(d),
		checkEffects("effects", d.Effects),
		checkMildest(d),
		checkTexts(d),
		oneOfNames("on_doubt", d.OnDoubt, "", tool.OnDoubtFail, tool.OnDoubtAsk),
		oneOfNames("required_isolation", d.RequiredIsolation, "", tool.IsolationNone, tool.IsolationFull),
		oneOfNames("required_network", d.RequiredNetwork, "", "none", "proxy", "open"),
		within("max_arguments", d.MaxArguments, maxArguments),
		within("output_budget", d.OutputBudget, MaxInline),
		within("timeouts.queue", int64(d.Timeouts.Queue), -1),
		within("timeouts.attempt", int64(d.Timeouts.Attempt), -1),
	)
}

// unreserved refuses names that are reserved for the frontend tools of runs.
func unreserved(d *tool.Descriptor) error {
	for _, name := range namesOf(d) {
		if strings.HasPrefix(name, tool.FrontendPrefix) {
			return fmt.Errorf("names that begin with %q are reserved for frontend tools", tool.FrontendPrefix)
		}
	}
	return nil
}

func checkAliases(d *tool.Descriptor) error {
	if len(d.Aliases) > maxAliases {
		return fmt.Errorf("has %d aliases, the limit is %d", len(d.Aliases), maxAliases)
	}
	for i, alias := range d.Aliases {
		if err := tool.ValidName(alias); err != nil {
			return fmt.Errorf("alias: %w", err)
		}
		if alias == d.ID || slices.Contains(d.Aliases[:i], alias) {
			return fmt.Errorf("alias %q occurs twice", alias)
		}
	}
	return nil
}

func checkEffects(field string, e tool.Effects) error {
	if err := errors.Join(
		oneOfNames(field+".mutability", e.Mutability, tool.ReadOnly, tool.Mutating),
		oneOfNames(field+".safety", e.Safety, tool.SafetyReadOnly, tool.SafetyMutating, tool.SafetyNetwork, tool.SafetyDestructive),
		oneOfNames(field+".tier", e.Tier, tool.Observe, tool.Confirm, tool.Escalate),
	); err != nil {
		return err
	}
	if err := tool.CheckResources(e.Resources); err != nil {
		return fmt.Errorf("%s.resources: %w", field, err)
	}
	if e.Mutability == tool.ReadOnly && (e.Safety == tool.SafetyMutating || e.Safety == tool.SafetyDestructive) {
		return fmt.Errorf("%s: mutability %s cannot be combined with safety %s", field, e.Mutability, e.Safety)
	}
	return nil
}

// checkMildest refuses a lower bound (Mildest) that is stricter than the effects of the tool, because one of the two must be wrong.
func checkMildest(d *tool.Descriptor) error {
	if d.Mildest == nil {
		return nil
	}
	if err := checkEffects("mildest", *d.Mildest); err != nil {
		return err
	}
	if d.Effects.MilderThan(*d.Mildest) {
		return errors.New("mildest is stricter than effects")
	}
	return nil
}

// checkTexts limits the texts that models and people read. In texts of one line, it refuses invisible characters, which make different
// names look alike.
func checkTexts(d *tool.Descriptor) error {
	for _, text := range []struct {
		field, value string
		most         int
		line         bool
	}{
		{"display_name", d.DisplayName, maxName, true},
		{"category", d.Category, maxName, true},
		{"version", d.Version, maxName, true},
		{"description", d.Description, maxDescription, false},
		{"guidance", d.Guidance, maxGuidance, false},
	} {
		switch {
		case !utf8.ValidString(text.value):
			return fmt.Errorf("%s is not UTF-8", text.field)
		case len(text.value) > text.most:
			return fmt.Errorf("%s has %d bytes, the limit is %d", text.field, len(text.value), text.most)
		case text.line && strings.IndexFunc(text.value, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0:
			return fmt.Errorf("%s has an invisible character", text.field)
		}
	}
	if len(d.Annotations) > maxLabels || len(d.Metadata) > maxLabels || len(d.RequiredSecrets) > maxLabels {
		return fmt.Errorf("has more than %d annotations, metadata or required_secrets", maxLabels)
	}
	return nil
}

func oneOfNames[T ~string](field string, value T, allowed ...T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s is %q; want one of %q", field, value, allowed)
}

// within refuses negative values, and values above most. A negative most means no upper limit.
func within[T int | int64](field string, value, most T) error {
	switch {
	case value < 0:
		return fmt.Errorf("%s is %d; want 0 or more", field, value)
	case most >= 0 && value > most:
		return fmt.Errorf("%s is %d; want at most %d", field, value, most)
	}
	return nil
}

// namesOf returns the id and the aliases of a tool.
func namesOf(d *tool.Descriptor) []string {
	return append([]string{d.ID}, d.Aliases...)
}
