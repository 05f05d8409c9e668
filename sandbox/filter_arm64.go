package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch  = unix.AUDIT_ARCH_AARCH64
	x32Bit     = 0x40000000 // arm64 has no x32 calls
	newestCall = unix.SYS_MSEAL
)

// archCalls returns allowed calls that not every architecture has.
func archCalls() []uint32 { return []uint32{unix.SYS_FSTATAT} }

func archModes() map[uint32]uint32 { return nil } // arm64 has only the calls that modeRules already lists.

func archOpens() map[uint32]uint32 { return nil }
