package faultfs

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// SectorSize is the number of bytes that a disk writes atomically.
const SectorSize = 512

// Files maps the file names of a directory to their contents.
type Files map[string][]byte

// WriteTo writes the files to a directory.
func (f Files) WriteTo(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, b := range f {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// A Survival says how much of an unsynced operation survives the power loss.
type Survival struct {
	Lost bool
	// Sectors reports for each sector of a Write whether it reached the disk. If Sectors is nil, all sectors reached the disk.
	Sectors func(sector int) bool
}

// A Power replays a log of operations and can simulate a power loss after each of them.
type Power struct {
	durable Files
	pending map[string][]Op // operations on each file since its last sync
}

// NewPower returns a Power that starts with the files in base.
func NewPower(base Files) *Power {
	return &Power{durable: maps.Clone(base), pending: map[string][]Op{}}
}

// Do applies the next operation. A sync makes all earlier operations on the same file durable. The first sync of a new file also makes
// earlier creations and deletions of files durable, because SQLite's file system then syncs the directory too.
func (p *Power) Do(op Op) {
	switch op.Kind {
	case Mark:
	case Sync:
		made := slices.ContainsFunc(p.pending[op.Name], func(o Op) bool { return o.Kind == Create })
		p.settle(op.Name, len(p.pending[op.Name]))
		for name, ops := range p.pending {
			for n := len(ops) - 1; n >= 0 && made; n-- {
				if ops[n].Kind == Create || ops[n].Kind == Delete {
					p.settle(name, n+1)
					break
				}
			}
		}
	default:
		p.pending[op.Name] = append(p.pending[op.Name], op)
	}
}

// settle makes the oldest n operations on a file durable.
func (p *Power) settle(name string, n int) {
	b, there := p.durable[name]
	b = slices.Clone(b)
	for _, o := range p.pending[name][:n] {
		b, there = apply(b, there, o, Survival{})
	}
	if there {
		p.durable[name] = b
	} else {
		delete(p.durable, name)
	}
	if p.pending[name] = p.pending[name][n:]; len(p.pending[name]) == 0 {
		delete(p.pending, name)
	}
}

// Pending returns how many operations a power loss may still lose.
func (p *Power) Pending() (n int) {
	for _, ops := range p.pending {
		n += len(ops)
	}
	return n
}

// Cut returns the files that a power loss at this moment leaves. It invokes choose for each operation that is not synced. The order is by
// file name, and for each file by operation.
func (p *Power) Cut(choose func(Op) Survival) Files {
	files := maps.Clone(p.durable)
	for _, name := range slices.Sorted(maps.Keys(p.pending)) {
		b, there := files[name]
		b = slices.Clone(b)
		for _, op := range p.pending[name] {
			s := choose(op)
			if s.Lost {
				if op.Kind == Create || op.Kind == Delete {
					break // Later operations went to a file without a durable name.
				}
				continue
			}
			b, there = apply(b, there, op, s)
		}
		if there {
			files[name] = b
		} else {
			delete(files, name)
		}
	}
	return files
}

func apply(b []byte, there bool, op Op, s Survival) ([]byte, bool) {
	switch op.Kind {
	case Create:
		return nil, true
	case Delete:
		return nil, false
	case Truncate:
		return resize(b, op.Offset), there
	case Write:
		end := op.Offset + int64(len(op.Data))
		if s.Sectors == nil {
			b = resize(b, max(end, int64(len(b))))
			copy(b[op.Offset:], op.Data)
			return b, there
		}
		for at := op.Offset; at < end; {
			next := min(end, (at/SectorSize+1)*SectorSize)
			if s.Sectors(int(at / SectorSize)) {
				b = resize(b, max(next, int64(len(b))))
				copy(b[at:next], op.Data[at-op.Offset:])
			}
			at = next
		}
	}
	return b, there
}

func resize(b []byte, size int64) []byte {
	if int64(len(b)) >= size {
		return b[:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}
