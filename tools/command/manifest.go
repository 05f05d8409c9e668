package command

import (
	"encoding/json"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Manifest is a tool as its file says it. The tags are the names in the file.
type Manifest struct {
	ID           string            `yaml:"id"`
	DisplayName  string            `yaml:"display_name"`
	Description  string            `yaml:"description"`
	Category     string            `yaml:"category"`
	Parameters   json.RawMessage   `yaml:"parameters"`
	ResultSchema json.RawMessage   `yaml:"result_schema"`
	Effects      effects           `yaml:"effects"`
	Mildest      *effects          `yaml:"mildest"`
	Assess       []verdict         `yaml:"assess"`
	Idempotent   bool              `yaml:"idempotent"`
	OnDoubt      string            `yaml:"on_doubt"`
	Timeouts     timeouts          `yaml:"timeouts"`
	MaxArguments int               `yaml:"max_arguments"`
	OutputBudget int               `yaml:"output_budget"`
	Guidance     string            `yaml:"guidance"`
	Annotations  map[string]string `yaml:"annotations"`
	Metadata     map[string]string `yaml:"metadata"`
	Aliases      []string          `yaml:"aliases"`
	Version      string            `yaml:"version"`
	Kind         string            `yaml:"kind"`  // of what it does, for people
	Title        string            `yaml:"title"` // with placeholders: a call in one line, for people
	Run          program           `yaml:"run"`
}

// effects are [tool.Effects].
type effects struct {
	Mutability      string `yaml:"mutability"`
	Safety          string `yaml:"safety"`
	Tier            string `yaml:"tier"`
	ConcurrencySafe bool   `yaml:"concurrency_safe"`
	OpenWorld       *bool  `yaml:"open_world"` // nil: as the network of the profile
}

// verdict says what calls with some arguments do. The first of which all arguments fit holds.
type verdict struct {
	When    map[string]json.RawMessage `yaml:"when"`
	Effects effects                    `yaml:"effects"`
}

type timeouts struct {
	Queue   time.Duration `yaml:"queue"`
	Attempt time.Duration `yaml:"attempt"`
}

// program says what is started, and how.
type program struct {
	Program     string            `yaml:"program"` // absolute, or ./ beside the manifest
	Digest      string            `yaml:"digest"`  // sha256:…, or load: as it is when the manifest is read
	Files       []file            `yaml:"files"`
	Args        []element         `yaml:"args"`
	Directory   string            `yaml:"directory"` // in the workspace; "": the workspace
	Stdin       string            `yaml:"stdin"`
	Output      string            `yaml:"output"`
	ExitCodes   []int             `yaml:"exit_codes"` // that are no failure; none: 0
	Environment map[string]string `yaml:"environment"`
	Pass        []string          `yaml:"pass"` // of the daemon's environment
	Secrets     map[string]handed `yaml:"secrets"`
	Profile     string            `yaml:"profile"`
	Limits      limits            `yaml:"limits"`
	Grace       time.Duration     `yaml:"grace"`
	Persistent  *persistent       `yaml:"persistent"`
}

// handed is a secret, and how the program gets it.
type handed struct {
	reference  string
	descriptor bool // the variable has the number of one that gives the value; else the value itself
}

// file is one more that the program needs.
type file struct {
	Path   string `yaml:"path"`
	Digest string `yaml:"digest"`
}

// limits go before those of the profile.
type limits struct {
	Tmp       int           `yaml:"tmp"`
	Processes int           `yaml:"processes"`
	Memory    int           `yaml:"memory"`
	Total     int           `yaml:"memory_total"`
	CPUs      float64       `yaml:"cpus"`
	FileSize  int           `yaml:"file_size"`
	Files     int           `yaml:"files"`
	CPU       time.Duration `yaml:"cpu"`
	Output    int           `yaml:"output"` // bytes of JSON, or of a line of it
}

// persistent keeps the program for more than one call.
type persistent struct {
	Instances int           `yaml:"instances"` // at once, for each owner; 0: 1
	Total     int           `yaml:"total"`     // at once, of all owners; 0: 16, or as many as instances
	Calls     int           `yaml:"calls"`     // after which one is ended; 0: 1000
	Idle      time.Duration `yaml:"idle"`      // after which one is ended; 0: 5 min
}

// How arguments reach a program on its standard input.
const (
	stdinNone      = "none"
	stdinArguments = "arguments" // as a JSON object
	stdinCall      = "call"      // within an object that says all of the attempt
)

// What a program prints.
const (
	outputText  = "text"
	outputJSON  = "json"
	outputLines = "lines"
)

const (
	defaultGrace     = 2 * time.Second
	defaultInstances = 1
	defaultTotal     = 16
	defaultCalls     = 1000
	defaultIdle      = 5 * time.Minute
	defaultOutput    = 1 << 20
	mostOutput       = 16 << 20
)

func (e *effects) effects(open bool) tool.Effects {
	out := tool.Effects{
		Mutability: tool.Mutability(e.Mutability), Safety: tool.Safety(e.Safety), Tier: tool.Tier(e.Tier),
		ConcurrencySafe: e.ConcurrencySafe, OpenWorld: open,
	}
	if e.OpenWorld != nil {
		out.OpenWorld = *e.OpenWorld
	}
	return out.Normal()
}
