package faultfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// A Kind is the type of an operation.
type Kind uint8

// The operations on files. A Mark is an entry that a test adds to the log. Read, Open and Share are never in the log; these operations can
// only fail.
const (
	Create Kind = iota
	Write
	Truncate
	Sync
	Delete
	Mark
	Read
	Open
	Share // A request for shared memory for the index of the write-ahead log.
)

func (k Kind) String() string {
	return [...]string{"create", "write", "truncate", "sync", "delete", "mark", "read", "open", "share"}[k]
}

// An Op is one operation on a file. Name is relative to the directory. Offset is the new size for a Truncate.
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

// A Fault is the error that an operation returns.
type Fault uint8

// The possible faults. A failed write leaves half of its bytes in the file, as a real failure can.
const (
	None Fault = iota
	IOError
	NoSpace
)

// Config configures a Disk.
type Config struct {
	Dir string // the directory that the Disk covers
	// Record keeps the operations. Without it, Log is empty.
	Record bool
	// SkipSync skips real syncs, which makes tests faster. Power loss is only simulated.
	SkipSync bool
	// Fail, when not nil, is called before each operation, from many goroutines. Op.Data is not set for a Read.
	Fail func(Op) Fault
}

// A Disk covers one directory from New to Close.
type Disk struct {
	cfg Config

	mu   sync.Mutex
	log  []Op
	base Files // contents of the files that existed when SQLite first opened them
}

// New returns a Disk that covers a directory. Open databases there after New, and close them before Close.
func New(cfg Config) (*Disk, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if cfg.Dir, err = filepath.EvalSymlinks(dir); err != nil { // SQLite resolves symbolic links in file names.
		return nil, err
	}
	d := &Disk{cfg: cfg, base: Files{}}
	return d, layer.add(d)
}

// Close stops covering the directory.
func (d *Disk) Close() { layer.remove(d) }

// Mark adds a value of the test to the log.
func (d *Disk) Mark(v any) { d.note(Op{Kind: Mark, Mark: v}) }

// Log returns the operations so far, and the files as they were before these operations.
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

// opened records a file that SQLite opens. there is true when the file existed before.
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
