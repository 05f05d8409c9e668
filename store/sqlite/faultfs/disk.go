package faultfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// A Kind is what was done to a file.
type Kind uint8

// What is done to files, and Mark, which a test puts into the log. Read is never in the log; it can only fail.
const (
	Create Kind = iota
	Write
	Truncate
	Sync
	Delete
	Mark
	Read
	Open
	Share // more shared memory for the index of the write-ahead log
)

func (k Kind) String() string {
	return [...]string{"create", "write", "truncate", "sync", "delete", "mark", "read", "open", "share"}[k]
}

// An Op is one operation on a file, named by its place in the directory. Offset is the new size of a Truncate.
type Op struct {
	Kind   Kind
	Name   string
	Offset int64
	Data   []byte
	Mark   any
}

func (o Op) String() string {
	return fmt.Sprintf("%v %s at %d, %d bytes", o.Kind, o.Name, o.Offset, len(o.Data))
}

// A Fault is what an operation meets.
type Fault uint8

// A write that fails has half its bytes in the file, as real ones may.
const (
	None Fault = iota
	IOError
	NoSpace
)

// Config says what a Disk does.
type Config struct {
	Dir string // what it covers
	// Record keeps the operations; without it Log is empty.
	Record bool
	// SkipSync leaves syncs out, for speed, where nobody will cut the real power.
	SkipSync bool
	// Fail, when not nil, is asked before each operation, from many goroutines. Data is not set yet for Read.
	Fail func(Op) Fault
}

// A Disk covers one directory from New to Close.
type Disk struct {
	cfg Config

	mu   sync.Mutex
	log  []Op
	base Files // files that were there before they were first opened
}

// New covers a directory. Databases there are opened after it and closed before Close.
func New(cfg Config) (*Disk, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if cfg.Dir, err = filepath.EvalSymlinks(dir); err != nil { // SQLite names files so
		return nil, err
	}
	d := &Disk{cfg: cfg, base: Files{}}
	return d, layer.add(d)
}

// Close uncovers the directory.
func (d *Disk) Close() { layer.remove(d) }

// Mark puts what a test knows into the log.
func (d *Disk) Mark(v any) { d.note(Op{Kind: Mark, Mark: v}) }

// Log returns what was done so far, and the files as they were before.
func (d *Disk) Log() (base Files, log []Op) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.base, slices.Clone(d.log)
}

func (d *Disk) note(op Op) {
	if !d.cfg.Record {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, op)
}

// opened notes a file that SQLite opens; there says that it was there before.
func (d *Disk) opened(name string, there bool) error {
	if !d.cfg.Record {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := slices.ContainsFunc(d.log, func(op Op) bool { return op.Name == name })
	switch _, based := d.base[name]; {
	case !there:
		d.log = append(d.log, Op{Kind: Create, Name: name})
	case !known && !based:
		b, err := os.ReadFile(filepath.Join(d.cfg.Dir, name))
		if err != nil {
			return err
		}
		d.base[name] = b
	}
	return nil
}

func (d *Disk) fails(op Op) Fault {
	if d.cfg.Fail == nil {
		return None
	}
	return d.cfg.Fail(op)
}
