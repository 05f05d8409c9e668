package files

import (
	"path"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// Config configures the tools.
type Config struct {
	// Workspace contains the files. Required.
	Workspace Workspace
	// Root is the absolute path by which people and models know the workspace. It is only compared with arguments and never opened. An
	// absolute path in arguments is accepted when it begins with Root. When Root is empty, all absolute paths are refused.
	Root string
	// Protect lists files whose change counts as DESTRUCTIVE, in the format of [sandbox.Protects]. Nil means [sandbox.DefaultAsked].
	Protect []string
	// Artifacts gives the tools read and grep access to output of earlier calls. Nil means no access.
	Artifacts Artifacts
	Limits    Limits
}

// Limits bound how much one call may read, write and visit. Zero fields mean the defaults.
type Limits struct {
	// FileSize is the maximum size in bytes of a file that the tools write, edit and multi_edit can change. Default: 10 MiB.
	FileSize int64
	// MediaSize is the maximum size in bytes of an image or PDF that the tool read returns. Default: 32 MiB.
	MediaSize int64
	// ScanSize is the maximum number of bytes that the tools read and grep process of one file. Default: 64 MiB.
	ScanSize int64
	// Entries is the maximum number of directory entries that one call of glob, grep or read visits. Default: 500,000.
	Entries int
	// SearchTime is the time after which a call of glob or grep returns what it has found so far. Default: 10 s.
	SearchTime time.Duration
}

// Limits of one result, whatever the size of the files.
const (
	defaultLines  = 2000 // number of lines that the tool read returns when the arguments contain no limit
	maxLines      = 5000
	maxLineLength = 2000      // maximum number of characters of a line in the result of the tool read
	textBudget    = 88 << 10  // bytes of text, encoded as JSON; the line that reaches this limit is the last one
	outputBudget  = 256 << 10 // bytes of data and message: the text is in both, and the message also has line numbers
	inlineMedia   = 64 << 10  // bytes of an image or PDF; a larger one becomes an artifact
	diffPreview   = 64 << 10  // bytes of a diff that an approver sees
	diffResult    = 16 << 10  // bytes of a diff in a result
	readArguments = 64 << 10
	editArguments = 1 << 20
	category      = "files"
	toolVersion   = "1"
	maxDepth      = 200 // nesting depth of folders up to which a walk enters them
	sniffLength   = 8000
)

// family is the state that the six tools share.
type family struct {
	workspace Workspace
	artifacts Artifacts
	root      string
	protect   []string
	limits    Limits
	writing   writing
}

// New returns the six tools, which share one workspace. It panics without a workspace, because that is a programming error.
func New(cfg Config) []tool.Tool {
	if cfg.Workspace == nil {
		panic("files: no workspace")
	}
	f := &family{workspace: cfg.Workspace, artifacts: cfg.Artifacts, protect: cfg.Protect, limits: cfg.Limits.withDefaults()}
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

// observing returns the effects of the tools that only read: read, glob and grep.
func observing() tool.Effects {
	return tool.Effects{Mutability: tool.ReadOnly, Safety: tool.SafetyReadOnly, Tier: tool.Observe, ConcurrencySafe: true}
}
