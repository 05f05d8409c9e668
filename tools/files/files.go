package files

import (
	"path"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// Config says which files the tools work on.
type Config struct {
	// Workspace is required.
	Workspace Workspace
	// Root is the absolute path by which people and models know the workspace. Absolute paths are taken when they lie
	// under it, by their letters; empty refuses every absolute path. It is never opened.
	Root string
	// Protect lists what a change counts as DESTRUCTIVE for, as [sandbox.Protects] takes it; nil means [sandbox.DefaultAsked].
	Protect []string
	// Artifacts is what earlier calls printed and saved, for read and grep; nil: there is none.
	Artifacts Artifacts
	Limits    Limits
}

// Limits bound what one call may read, write and visit. Zero fields mean the defaults.
type Limits struct {
	// FileSize is the biggest file that write makes and the edits take, in bytes; 10 MiB.
	FileSize int64
	// MediaSize is the biggest image or PDF that read gives out, in bytes; 32 MiB.
	MediaSize int64
	// ScanSize is how far read and grep look into one file, in bytes; 64 MiB.
	ScanSize int64
	// Entries is how many directory entries one glob, grep or listing visits; 500,000.
	Entries int
	// SearchTime is how long one glob or grep looks before it answers with what it has; 10 s.
	SearchTime time.Duration
}

// What a model is shown at once, however big the file is.
const (
	defaultLines  = 2000 // of read
	maxLines      = 5000
	maxLineLength = 2000      // characters of a line, of read
	textBudget    = 88 << 10  // bytes of shown text, as JSON; the line that goes beyond is the last
	outputBudget  = 256 << 10 // bytes of data and message: textBudget twice and the line numbers
	inlineMedia   = 64 << 10  // bytes; what is bigger goes into an artifact
	diffPreview   = 64 << 10  // bytes of diff that an approver sees
	diffResult    = 16 << 10  // bytes of diff in a result
	readArguments = 64 << 10
	editArguments = 1 << 20
	category      = "files"
	toolVersion   = "1"
	maxDepth      = 200 // folders below each other that a walk enters
	sniffLength   = 8000
)

// family is what the six tools share.
type family struct {
	workspace Workspace
	artifacts Artifacts
	root      string
	protect   []string
	limits    Limits
	// writing lets one call at a time look at a file and replace it; so no change made here is lost between the two.
	writing chan struct{}
}

// New returns the six tools, which share one workspace. It panics without a workspace, a bug of the wiring.
func New(cfg Config) []tool.Tool {
	if cfg.Workspace == nil {
		panic("files: no workspace")
	}
	f := &family{workspace: cfg.Workspace, artifacts: cfg.Artifacts, protect: cfg.Protect, limits: cfg.Limits.withDefaults(), writing: make(chan struct{}, 1)}
	if f.protect == nil {
		f.protect = sandbox.DefaultAsked()
	}
	if path.IsAbs(cfg.Root) {
		f.root = path.Clean(cfg.Root)
	}
	return []tool.Tool{&read{f}, newWrite(f), newEdit(f), newMultiEdit(f), &glob{f}, &grep{f}}
}

func (l Limits) withDefaults() Limits {
	if l.FileSize <= 0 {
		l.FileSize = 10 << 20
	}
	if l.MediaSize <= 0 {
		l.MediaSize = 32 << 20
	}
	if l.ScanSize <= 0 {
		l.ScanSize = 64 << 20
	}
	if l.Entries <= 0 {
		l.Entries = 500_000
	}
	if l.SearchTime <= 0 {
		l.SearchTime = 10 * time.Second
	}
	return l
}

// observing are the effects of read, glob and grep.
func observing() tool.Effects {
	return tool.Effects{Mutability: tool.ReadOnly, Safety: tool.SafetyReadOnly, Tier: tool.Observe, ConcurrencySafe: true}
}
