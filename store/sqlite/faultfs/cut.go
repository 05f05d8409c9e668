package faultfs

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// SectorSize is what a disk writes whole.
const SectorSize = 512

// Files are the contents of a directory.
type Files map[string][]byte

// WriteTo makes the files in a directory.
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

// A Survival says what became of an operation that was not synced when the power went.
type Survival struct {
	Lost bool
	// Sectors, when not nil, says for each sector of a Write whether it reached the disk.
	Sectors func(sector int) bool
}

// A Power follows a log of operations and can go at each of them.
type Power struct {
	durable Files
	pending map[string][]Op // since the last sync of each file
}

// NewPower begins with the files as they were.
func NewPower(base Files) *Power {
	return &Power{durable: maps.Clone(base), pending: map[string][]Op{}}
}

// Do takes the next operation. A sync makes durable what was done to that file before it. The first sync of a file that
// was made syncs the directory too, as SQLite's file system does: then it is durable which files there are.
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

// Pending is how many operations may still be lost.
func (p *Power) Pending() (n int) {
	for _, ops := range p.pending {
		n += len(ops)
	}
	return n
}

// Cut returns the files when the power goes now. choose says what became of each operation that was not synced; it is
// asked file by file in the order of their names, and in the order of the operations.
func (p *Power) Cut(choose func(Op) Survival) Files {
	files := maps.Clone(p.durable)
	for _, name := range slices.Sorted(maps.Keys(p.pending)) {
		b, there := files[name]
		b = slices.Clone(b)
		for _, op := range p.pending[name] {
			s := choose(op)
			if s.Lost {
				if op.Kind == Create || op.Kind == Delete {
					break // what came later was done to a file that no name leads to
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
