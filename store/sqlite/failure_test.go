package sqlite_test

import (
	"errors"
	"testing"

	db "zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite"
)

// TestErrorsOfTheDatabase checks the error of the store for each result code with which SQLite may refuse a write.
func TestErrorsOfTheDatabase(t *testing.T) {
	rows := []struct {
		want  error
		codes []db.ResultCode
	}{
		{store.ErrRefused, []db.ResultCode{
			db.ResultTooBig, db.ResultConstraint, db.ResultConstraintCheck, db.ResultConstraintCommitHook, db.ResultConstraintForeignKey,
			db.ResultConstraintFunction, db.ResultConstraintNotNull, db.ResultConstraintPrimaryKey, db.ResultConstraintTrigger, db.ResultConstraintUnique,
			db.ResultConstraintVTab, db.ResultConstraintRowID, db.ResultMismatch, db.ResultRange,
		}},
		{store.ErrBusy, []db.ResultCode{
			db.ResultError, db.ResultErrorMissingCollSeq, db.ResultErrorRetry, db.ResultErrorSnapshot, db.ResultInternal, db.ResultPerm, db.ResultAbort,
			db.ResultAbortRollback, db.ResultBusy, db.ResultBusyRecovery, db.ResultBusySnapshot, db.ResultLocked, db.ResultLockedSharedCache, db.ResultNoMem,
			db.ResultIOErrNoMem, db.ResultReadOnly, db.ResultReadOnlyRecovery, db.ResultReadOnlyCantLock, db.ResultReadOnlyRollback, db.ResultReadOnlyCantInit,
			db.ResultReadOnlyDirectory, db.ResultInterrupt, db.ResultNotFound, db.ResultCantOpen, db.ResultCantOpenNoTempDir, db.ResultCantOpenIsDir,
			db.ResultCantOpenFullPath, db.ResultCantOpenConvPath, db.ResultProtocol, db.ResultEmpty, db.ResultSchema, db.ResultMisuse, db.ResultNoLFS,
			db.ResultAuth, db.ResultAuthUser, db.ResultFormat, db.ResultNotice, db.ResultWarning,
		}},
		{store.ErrFull, []db.ResultCode{db.ResultFull, db.ResultIOErrSHMSize}},
		{store.ErrCorrupt, []db.ResultCode{db.ResultCorrupt, db.ResultCorruptVTab, db.ResultNotADB, db.ResultIOErrRead, db.ResultIOErrShortRead}},
		{store.ErrFatal, []db.ResultCode{
			db.ResultIOErr, db.ResultIOErrWrite, db.ResultIOErrFsync, db.ResultIOErrDirFsync, db.ResultIOErrTruncate, db.ResultIOErrFstat, db.ResultIOErrUnlock,
			db.ResultIOErrReadLock, db.ResultIOErrDelete, db.ResultIOErrBlocked, db.ResultIOErrAccess, db.ResultIOErrCheckReservedLock, db.ResultIOErrLock,
			db.ResultIOErrClose, db.ResultIOErrDirClose, db.ResultIOErrSHMOpen, db.ResultIOErrSHMLock, db.ResultIOErrSHMMap, db.ResultIOErrSeek,
			db.ResultIOErrDeleteNoEnt, db.ResultIOErrMMap, db.ResultIOErrGetTempPath, db.ResultIOErrConvPath, db.ResultIOErrVNode, db.ResultIOErrAuth,
			db.ResultIOErrBeginAtomic, db.ResultIOErrCommitAtomic, db.ResultIOErrRollbackAtomic, db.ResultReadOnlyDBMoved,
		}},
	}
	var p points
	s := open(t, sqlite.Config{Dir: t.TempDir(), FailPoint: p.fail})
	for _, row := range rows {
		for _, code := range row.codes {
			p.set(func(point string) error {
				if point == "write" {
					return code.ToError()
				}
				return nil
			})
			c := creation(newCall(code.String()))
			if err := s.Commit(t.Context(), c); !errors.Is(err, row.want) || meanings(err) != 1 {
				t.Errorf("%v: %v, want %v", code, err, row.want)
			}
			p.set(nil)
			if err := s.Commit(t.Context(), c); row.want != store.ErrFatal && err != nil {
				t.Fatalf("%v, tried again when the cause is gone: %v", code, err)
			} else if row.want == store.ErrFatal {
				closeStore(t, s)
				s = open(t, sqlite.Config{Dir: t.TempDir(), FailPoint: p.fail})
			}
		}
	}
}

// meanings counts how many errors of package store err matches.
func meanings(err error) (n int) {
	for _, meaning := range [...]error{store.ErrFull, store.ErrBusy, store.ErrRefused, store.ErrCorrupt, store.ErrFatal} {
		if errors.Is(err, meaning) {
			n++
		}
	}
	return n
}
