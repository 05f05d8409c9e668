package command

import (
	"encoding/json"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Manifest is the content of a manifest file. The yaml tags are the keys in the file.
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
	Kind         string            `yaml:"kind"`  // kind of action, for people
	Title        string            `yaml:"title"` // one line that describes a call for people; may contain placeholders
	Run          program           `yaml:"run"`
}

// effects is the YAML form of [tool.Effects].
type effects struct {
	Mutability      string `yaml:"mutability"`
	Safety          string `yaml:"safety"`
	Tier            string `yaml:"tier"`
	ConcurrencySafe bool   `yaml:"concurrency_safe"`
	OpenWorld       *bool  `yaml:"open_world"` // nil means true if the profile permits network access, and false otherwise

	Resources []resource `yaml:"resources"`
}

// verdict gives the effects of the calls whose arguments match it. The first matching verdict of a manifest applies.
type verdict struct {
	When    map[string]json.RawMessage `yaml:"when"`
	Effects effects                    `yaml:"effects"`
}

type timeouts struct {
	Queue   time.Duration `yaml:"queue"`
	Attempt time.Duration `yaml:"attempt"`
}

// program describes which program is started, and how.
type program struct {
	Program     string            `yaml:"program"` // absolute path, or a path that begins with ./ and is relative to the manifest's directory
	Digest      string            `yaml:"digest"`  // sha256:…; or the word load, which pins the file to the digest that it has when the manifest is read
	Files       []file            `yaml:"files"`
	Args        []element         `yaml:"args"`
	Directory   string            `yaml:"directory"` // relative to the workspace; empty means the workspace itself
	Stdin       string            `yaml:"stdin"`
	Output      string            `yaml:"output"`
	ExitCodes   []int             `yaml:"exit_codes"` // exit codes that mean success; an empty list means 0
	Environment map[string]string `yaml:"environment"`
	Pass        []string          `yaml:"pass"` // variables of the daemon's environment that the program gets
	Secrets     map[string]handed `yaml:"secrets"`
	Profile     string            `yaml:"profile"`
	Limits      limits            `yaml:"limits"`
	Grace       time.Duration     `yaml:"grace"`
	Persistent  *persistent       `yaml:"persistent"`
}

// handed is a reference to a secret, and says how the program gets the value.
type handed struct {
	reference  string
	descriptor bool // true: the variable contains the number of a file descriptor from which the program reads the value; false: the variable contains the value
}

// file is another file that the program needs.
type file struct {
	Path   string `yaml:"path"`
	Digest string `yaml:"digest"`
}

// limits override the limits of the profile.
type limits struct {
	Tmp       int           `yaml:"tmp"`
	Processes int           `yaml:"processes"`
	Memory    int           `yaml:"memory"`
	Total     int           `yaml:"memory_total"`
	CPUs      float64       `yaml:"cpus"`
	FileSize  int           `yaml:"file_size"`
	Files     int           `yaml:"files"`
	CPU       time.Duration `yaml:"cpu"`
	Output    int           `yaml:"output"` // size limit in bytes; for the format json it limits the whole output, for the format lines it limits each line
}

// persistent makes a program serve more than one call.
type persistent struct {
	Instances int           `yaml:"instances"` // maximum number of programs of one owner at the same time; 0 means 1
	Total     int           `yaml:"total"`     // maximum number of programs of all owners at the same time; 0 means 16, or Instances if that is larger
	Calls     int           `yaml:"calls"`     // number of calls after which a program is ended; 0 means 1000
	Idle      time.Duration `yaml:"idle"`      // time without a call after which a program is ended; 0 means 5 min
}

// The values of run.stdin: what a program reads on its standard input.
const (
	stdinNone      = "none"
	stdinArguments = "arguments" // the arguments as a JSON object
	stdinCall      = "call"      // a JSON object that describes the whole attempt, including the arguments
)

// Formats of a program's output.
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
		Resources:  e.resources(nil, nil),
		Mutability: tool.Mutability(e.Mutability), Safety: tool.Safety(e.Safety), Tier: tool.Tier(e.Tier),
		ConcurrencySafe: e.ConcurrencySafe, OpenWorld: open,
	}
	if e.OpenWorld != nil {
		out.OpenWorld = *e.OpenWorld
	}
	return out.Normal()
}
