package faultfs

import (
	"bytes"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

type (
	openFunc   = func(tls *libc.TLS, vfs, zName, file uintptr, flags int32, outFlags uintptr) int32
	deleteFunc = func(tls *libc.TLS, vfs, zName uintptr, syncDir int32) int32
	closeFunc  = func(tls *libc.TLS, file uintptr) int32
	bytesFunc  = func(tls *libc.TLS, file, buffer uintptr, amount int32, offset int64) int32
	sizeFunc   = func(tls *libc.TLS, file uintptr, size int64) int32
	syncFunc   = func(tls *libc.TLS, file uintptr, flags int32) int32
	shareFunc  = func(tls *libc.TLS, file uintptr, region, size, extend int32, out uintptr) int32
)

func xOpen(tls *libc.TLS, _, zName, address uintptr, flags int32, outFlags uintptr) int32 {
	base := at[lib.Tsqlite3_vfs](layer.base)
	disk, name := layer.diskOf(zName)
	there := true
	if disk != nil {
		there = exists(zName)
		if disk.fails(Op{Kind: Open, Name: name}) != None {
			at[lib.Tsqlite3_file](address).FpMethods = 0
			return lib.SQLITE_CANTOPEN
		}
	}
	code := function[openFunc](base.FxOpen)(tls, layer.base, zName, address, flags, outFlags)
	if disk == nil || code != lib.SQLITE_OK {
		return code
	}
	layer.adopt(tls, address, disk, name)
	if disk.opened(name, there) != nil {
		return lib.SQLITE_CANTOPEN
	}
	return code
}

func xDelete(tls *libc.TLS, _, zName uintptr, syncDir int32) int32 {
	disk, name := layer.diskOf(zName)
	if disk != nil {
		if disk.fails(Op{Kind: Delete, Name: name}) != None {
			return lib.SQLITE_IOERR_DELETE
		}
		disk.note(Op{Kind: Delete, Name: name})
	}
	return function[deleteFunc](at[lib.Tsqlite3_vfs](layer.base).FxDelete)(tls, layer.base, zName, syncDir)
}

func xClose(tls *libc.TLS, address uintptr) int32 {
	f := layer.file(address)
	layer.forget(address)
	return function[closeFunc](f.base.FxClose)(tls, address)
}

func xRead(tls *libc.TLS, address, buffer uintptr, amount int32, offset int64) int32 {
	f := layer.file(address)
	if f.disk.fails(Op{Kind: Read, Name: f.name, Offset: offset}) != None {
		return lib.SQLITE_IOERR_READ
	}
	return function[bytesFunc](f.base.FxRead)(tls, address, buffer, amount, offset)
}

func xWrite(tls *libc.TLS, address, buffer uintptr, amount int32, offset int64) int32 {
	f := layer.file(address)
	op := Op{Kind: Write, Name: f.name, Offset: offset, Data: unsafe.Slice(at[byte](buffer), amount)}
	code := int32(lib.SQLITE_OK)
	switch f.disk.fails(op) {
	case IOError:
		code, amount = lib.SQLITE_IOERR_WRITE, amount/2
	case NoSpace:
		code, amount = lib.SQLITE_FULL, amount/2
	}
	op.Data = bytes.Clone(op.Data[:amount])
	f.disk.note(op)
	if done := function[bytesFunc](f.base.FxWrite)(tls, address, buffer, amount, offset); done != lib.SQLITE_OK {
		return done
	}
	return code
}

func xTruncate(tls *libc.TLS, address uintptr, size int64) int32 {
	f := layer.file(address)
	op := Op{Kind: Truncate, Name: f.name, Offset: size}
	if f.disk.fails(op) != None {
		return lib.SQLITE_IOERR_TRUNCATE
	}
	f.disk.note(op)
	return function[sizeFunc](f.base.FxTruncate)(tls, address, size)
}

func xSync(tls *libc.TLS, address uintptr, flags int32) int32 {
	f := layer.file(address)
	op := Op{Kind: Sync, Name: f.name}
	if f.disk.fails(op) != None {
		return lib.SQLITE_IOERR_FSYNC
	}
	code := int32(lib.SQLITE_OK)
	if !f.disk.cfg.SkipSync {
		code = function[syncFunc](f.base.FxSync)(tls, address, flags)
	}
	if code == lib.SQLITE_OK {
		f.disk.note(op)
	}
	return code
}

func xShmMap(tls *libc.TLS, address uintptr, region, size, extend int32, out uintptr) int32 {
	f := layer.file(address)
	switch f.disk.fails(Op{Kind: Share, Name: f.name}) {
	case IOError:
		return lib.SQLITE_IOERR_SHMMAP
	case NoSpace:
		return lib.SQLITE_IOERR_SHMSIZE
	}
	return function[shareFunc](f.base.FxShmMap)(tls, address, region, size, extend, out)
}
