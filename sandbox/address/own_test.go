package address_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/sandbox/address"
)

const inNetwork = "ADDRESS_TEST_IN_NETWORK"

// The test checks that a service of this machine cannot be reached through the machine's own public address (T48).
func TestT48OwnPublicAddress(t *testing.T) {
	const own = "93.184.216.34"
	if os.Getenv(inNetwork) == "" {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		child := exec.Command(exe, "-test.run", "^TestT48OwnPublicAddress$")
		child.Env = append(os.Environ(), inNetwork+"=1")
		child.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	giveLoopback(t, netip.MustParseAddr(own))
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	to := netip.AddrPortFrom(netip.MustParseAddr(own), uint16(l.Addr().(*net.TCPAddr).Port)).String()
	dial := func(r address.Rules) error {
		conn, err := (&net.Dialer{ControlContext: r.Control}).Dial("tcp", to)
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := dial(address.Rules{}); err == nil {
		t.Error("the machine was reached")
	}
	if err := dial(address.Rules{Allow: []netip.Prefix{netip.MustParsePrefix(own + "/32")}}); err != nil {
		t.Errorf("allowed: %v", err)
	}
}

// giveLoopback adds an address to the loopback device and brings it up.
func giveLoopback(t *testing.T, a netip.Addr) {
	t.Helper()
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s)
	var request [40]byte // struct ifreq
	copy(request[:], "lo")
	binary.NativeEndian.PutUint16(request[16:], unix.AF_INET)
	ip := a.As4()
	copy(request[20:], ip[:])
	for _, call := range []uintptr{unix.SIOCSIFADDR, unix.SIOCSIFFLAGS} {
		if call == unix.SIOCSIFFLAGS {
			binary.NativeEndian.PutUint16(request[16:], unix.IFF_UP)
		}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s), call, uintptr(unsafe.Pointer(&request))); errno != 0 {
			t.Fatal(errno)
		}
	}
}
