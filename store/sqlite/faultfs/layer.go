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

// layer is global because SQLite's table of file systems is global in the process.
var layer shim

// A shim wraps SQLite's own file system. SQLite calls its functions as C functions. They are plain Go functions, which find their file by
// the address of the sqlite3_file.
type shim struct {
	mu     sync.RWMutex
	base   uintptr             // the wrapped sqlite3_vfs
	disks  map[string]*Disk    // by directory
	files  map[uintptr]*file   // open files by the address of their sqlite3_file
	tables map[uintptr]uintptr // maps each sqlite3_io_methods of base to the layer's methods that wrap it
}

// A file is a file on a Disk that SQLite has open.
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

// install registers the layer under the name of the file system that the journal uses.
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
		return errors.New("no file system to wrap")
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

// diskOf returns the disk that covers a path, and the file's name on that disk.
func (l *shim) diskOf(zName uintptr) (*Disk, string) {
	if zName == 0 {
		return nil, "" // A temporary file has no name.
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

// adopt replaces the methods of a file that base has opened with those of the layer.
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

// at returns a pointer to the C value at an address.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// pointer converts a Go function to a C function pointer, as modernc.org/sqlite does. The function named function converts it back.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

func function[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }
