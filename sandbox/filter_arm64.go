package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch  = unix.AUDIT_ARCH_AARCH64
	x32Bit     = 0x40000000 // no such calls here
	newestCall = unix.SYS_MSEAL
)

// archCalls are allowed calls that are not of all architectures.
func archCalls() []uint32 { return []uint32{unix.SYS_FSTATAT} }

func archModes() map[uint32]uint32 { return nil } // all have a directory here

func archOpens() map[uint32]uint32 { return nil }
