package faultfs

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// layer is one for the process, as SQLite's table of file systems is.
var layer shim

// A shim stands before SQLite's own file system. Its C functions are plain Go functions, which find what they are about
// through the address of the file.
type shim struct {
	mu     sync.RWMutex
	base   uintptr             // the sqlite3_vfs that does the work
	disks  map[string]*Disk    // by directory
	files  map[uintptr]*file   // open ones, by their sqlite3_file
	tables map[uintptr]uintptr // our sqlite3_io_methods for each of base's
}

// A file is one that SQLite has open on a Disk.
type file struct {
	disk *Disk
	name string
	base *lib.Tsqlite3_io_methods
}

func (l *shim) add(d *Disk) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.base == 0 {
		if err := l.install(); err != nil {
			return err
		}
	}
	if l.disks[d.cfg.Dir] != nil {
		return errors.New(d.cfg.Dir + " has a disk")
	}
	l.disks[d.cfg.Dir] = d
	return nil
}

func (l *shim) remove(d *Disk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.disks, d.cfg.Dir)
}

// install puts the layer in the place of the file system that the journal names.
func (l *shim) install() error {
	tls := libc.NewTLS()
	defer tls.Close()
	if code := lib.Xsqlite3_initialize(tls); code != lib.SQLITE_OK {
		return errors.New("SQLite does not start")
	}
	const replaced = "unix-excl"
	name, err := libc.CString(replaced)
	if err != nil {
		return err
	}
	base := lib.Xsqlite3_vfs_find(tls, name)
	ours := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
	if base == 0 || ours == 0 {
		return errors.New("no file system to stand before")
	}
	vfs := at[lib.Tsqlite3_vfs](ours)
	*vfs = *at[lib.Tsqlite3_vfs](base)
	vfs.FzName, vfs.FxOpen, vfs.FxDelete = name, pointer(xOpen), pointer(xDelete)
	l.base, l.disks, l.files, l.tables = base, map[string]*Disk{}, map[uintptr]*file{}, map[uintptr]uintptr{}
	if code := lib.Xsqlite3_vfs_register(tls, ours, 1); code != lib.SQLITE_OK {
		return errors.New("SQLite refuses the file system")
	}
	return nil
}

// diskOf returns the disk that covers a path, and the file's name there.
func (l *shim) diskOf(zName uintptr) (*Disk, string) {
	if zName == 0 {
		return nil, "" // a temporary file
	}
	dir, name := filepath.Split(libc.GoString(zName))
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.disks[filepath.Clean(dir)], name
}

func (l *shim) file(f uintptr) *file {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.files[f]
}

// adopt puts our functions into a file that base has opened.
func (l *shim) adopt(tls *libc.TLS, address uintptr, d *Disk, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	opened := at[lib.Tsqlite3_file](address)
	base := at[lib.Tsqlite3_io_methods](opened.FpMethods)
	table, ok := l.tables[opened.FpMethods]
	if !ok {
		table = libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(*base)))
		ours := at[lib.Tsqlite3_io_methods](table)
		*ours = *base
		ours.FxClose, ours.FxRead, ours.FxWrite = pointer(xClose), pointer(xRead), pointer(xWrite)
		ours.FxTruncate, ours.FxSync, ours.FxShmMap = pointer(xTruncate), pointer(xSync), pointer(xShmMap)
		l.tables[opened.FpMethods] = table
	}
	l.files[address] = &file{disk: d, name: name, base: base}
	opened.FpMethods = table
}

func (l *shim) forget(address uintptr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.files, address)
}

func exists(zName uintptr) bool {
	_, err := os.Lstat(libc.GoString(zName))
	return err == nil
}

// at is the C value at an address.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// pointer is a declared function as C's pointer to it, in the manner of modernc.org/sqlite; function is the way back.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

func function[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }
