package files

import (
	"path"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// Config configures the files that the tools may use.
type Config struct {
	// Workspace is required.
	Workspace Workspace
	// Root is the absolute path of the workspace that people and models know. Absolute paths in arguments are accepted when they begin with
	// it; when it is empty, all absolute paths are refused. Root is never opened.
	Root string
	// Protect lists the files whose change is DESTRUCTIVE, in the format of [sandbox.Protects]. Nil means [sandbox.DefaultAsked].
	Protect []string
	// Artifacts gives read and grep access to output of earlier calls. Nil means no access.
	Artifacts Artifacts
	Limits    Limits
}

// Limits bound how much one call may read, write and visit. Zero fields mean the defaults.
type Limits struct {
	// FileSize is the maximum size of a file for write and the edits, in bytes. Default: 10 MiB.
	FileSize int64
	// MediaSize is the maximum size of an image or PDF that read returns, in bytes. Default: 32 MiB.
	MediaSize int64
	// ScanSize is how many bytes of one file read and grep look at. Default: 64 MiB.
	ScanSize int64
	// Entries is how many directory entries one glob, grep or listing visits. Default: 500,000.
	Entries int
	// SearchTime is the time after which a glob or grep returns what it has found so far. Default: 10 s.
	SearchTime time.Duration
}

// Limits for what a model gets in one result, for files of any size.
const (
	defaultLines  = 2000 // lines of a read
	maxLines      = 5000
	maxLineLength = 2000      // characters of a line in a read
	textBudget    = 88 << 10  // bytes of text, encoded as JSON; the line that exceeds the budget is the last
	outputBudget  = 256 << 10 // bytes of data and message: twice textBudget and the line numbers
	inlineMedia   = 64 << 10  // bytes; larger media become an artifact
	diffPreview   = 64 << 10  // bytes of a diff that an approver sees
	diffResult    = 16 << 10  // bytes of a diff in a result
	readArguments = 64 << 10
	editArguments = 1 << 20
	category      = "files"
	toolVersion   = "1"
	maxDepth      = 200 // nesting depth of folders that a walk enters
	sniffLength   = 8000
)

// family is the state that the six tools share.
type family struct {
	workspace Workspace
	artifacts Artifacts
	root      string
	protect   []string
	limits    Limits
	// writing allows one call at a time to check a file and replace it, so that no change by these tools is lost in between.
	writing chan struct{}
}

// New returns the six tools, which share one workspace. It panics without a workspace, because that is a programming error.
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

// observing returns the effects of read, glob and grep.
func observing() tool.Effects {
	return tool.Effects{Mutability: tool.ReadOnly, Safety: tool.SafetyReadOnly, Tier: tool.Observe, ConcurrencySafe: true}
}
