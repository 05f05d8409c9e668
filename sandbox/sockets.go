package sandbox

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// searchBound limits the search of a workspace for sockets.
const searchBound = 10 * time.Second

// A boundSocket is a unix socket that is bound to a path, with what the kernel reports about it.
type boundSocket struct {
	name string // path given to bind; may be relative or outdated
	file file
}

// A file is identified by a device and the low half of an inode number.
type file struct{ device, inode uint32 }

// strayed returns the paths of those sockets in a workspace that cannot be found by the names to which they were bound. There are four
// causes:
//
//   - the socket was bound by a relative path
//   - a directory was renamed
//   - the socket has further names
//   - it was bound through another mount of the same files
//
// The helper covers all other sockets by their names. strayed searches the workspace only when one of its file systems contains a socket of
// the first three kinds.
func strayed(workspace string) (found []string, err error) {
	all, err := boundSockets()
	if err != nil {
		return nil, nil //nolint:nilerr // a kernel or a container without this list; then those with right names are covered
	}
	top := real(workspace)
	var own unix.Stat_t
	if err := unix.Stat(top, &own); err != nil {
		return nil, err
	}
	lost, elsewhere := map[file]bool{}, []string{}
	for _, s := range all {
		stat, there := s.look()
		if !there || stat.Nlink > 1 {
			lost[s.file] = true
		}
		if there && stat.Dev == own.Dev && !strings.HasPrefix(s.name, top+"/") {
			elsewhere = append(elsewhere, filepath.Join(real(filepath.Dir(s.name)), filepath.Base(s.name)))
		}
	}
	if len(lost)+len(elsewhere) == 0 {
		return nil, nil
	}
	table, err := mounts()
	if err != nil {
		return nil, err
	}
	shown := shownIn(table, top)
	for _, path := range elsewhere {
		for _, other := range otherNames(table, shown, path) {
			var stat unix.Stat_t // A mount may cover the path, so the path must be checked.
			if unix.Lstat(other, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFSOCK {
				found = append(found, other)
			}
		}
	}
	maps.DeleteFunc(lost, func(at file, _ bool) bool {
		return !slices.ContainsFunc(shown, func(m mount) bool { return m.device == at.device })
	})
	if len(lost) == 0 {
		return found, nil
	}
	more, err := search(top, lost)
	return append(found, more...), err
}

// findSockets records the sockets in the workspace that the helper cannot find by name.
func (run *run) findSockets() (err error) {
	if !run.supervised() {
		return nil // The run cannot connect to a path, because it may only use socket pairs.
	}
	if run.sockets, err = strayed(filepath.Clean(run.spec.Policy.Workspace)); err != nil {
		return &RefusedError{Fact: "ipc", Step: "sockets in the workspace", Err: err}
	}
	return nil
}

// look reports whether the name leads to the socket.
func (s *boundSocket) look() (stat unix.Stat_t, there bool) {
	there = filepath.IsAbs(s.name) && unix.Lstat(s.name, &stat) == nil && uint32(stat.Ino) == s.file.inode && stat.Mode&unix.S_IFMT == unix.S_IFSOCK
	return stat, there
}

// search finds sockets by inode number. It ignores the device number, because some file systems report another number for a file than the
// kernel's list of sockets.
func search(top string, lost map[file]bool) (found []string, err error) {
	inodes := map[uint32]bool{}
	for at := range lost {
		inodes[at.inode] = true
	}
	end := time.Now().Add(searchBound)
	err = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if time.Now().After(end) {
			return os.ErrDeadlineExceeded
		}
		if err != nil || d.Type() != fs.ModeSocket {
			return nil //nolint:nilerr // it is gone, or the command may not see it either
		}
		if info, err := d.Info(); err == nil && inodes[uint32(info.Sys().(*syscall.Stat_t).Ino)] {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("search for a socket with an unknown path: %w", err)
	}
	return found, nil
}

// A mount shows a directory of a file system at a path.
type mount struct {
	device   uint32
	root, at string
}

// mounts returns the mounts of the daemon. A mount comes after the one that it covers.
func mounts() (list []mount, err error) {
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer table.Close()
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		// for example: 36 35 98:0 /root /mount/point options …
		fields := strings.Fields(lines.Text())
		var major, minor uint32
		if len(fields) < 5 {
			continue
		}
		if _, err := fmt.Sscanf(fields[2], "%d:%d", &major, &minor); err != nil {
			continue
		}
		list = append(list, mount{major<<20 | minor, unescapeMount(fields[3]), unescapeMount(fields[4])})
	}
	return list, lines.Err()
}

// below returns the rest of path after dir, with its leading slash.
func below(path, dir string) (rest string, inside bool) {
	rest, inside = strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return rest, inside && (rest == "" || rest[0] == '/')
}

// mountOf returns the mount that contains a path without symbolic links.
func mountOf(list []mount, path string) (found mount) {
	for _, m := range list {
		if _, inside := below(path, m.at); inside && len(m.at) >= len(found.at) {
			found = m
		}
	}
	return found
}

// shownIn returns the mounts visible in the directory top: the mount that contains it, limited to top, and those below it. top has no
// symbolic links.
func shownIn(list []mount, top string) []mount {
	own := mountOf(list, top)
	rest, _ := below(top, own.at)
	shown := []mount{{own.device, filepath.Join(own.root, rest), top}}
	for _, m := range list {
		if strings.HasPrefix(m.at, top+"/") {
			shown = append(shown, m)
		}
	}
	return shown
}

// otherNames returns the other paths at which the mounts in the list shown contain the file at path. path contains no symbolic link.
func otherNames(list, shown []mount, path string) (found []string) {
	m := mountOf(list, path)
	rest, _ := below(path, m.at)
	for _, s := range shown {
		if in, ok := below(filepath.Join(m.root, rest), s.root); ok && s.device == m.device && s.at+in != path {
			found = append(found, s.at+in)
		}
	}
	return found
}

// unescapeMount decodes the octal escapes in a path of /proc/self/mountinfo.
func unescapeMount(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// A unixRequest is the kernel's struct unix_diag_req after its header.
type unixRequest struct {
	unix.NlMsghdr
	family, protocol uint8
	_                uint16
	states           uint32
	inode            uint32
	show             uint32
	cookie           [2]uint32
}

const (
	showName, showFile = 1, 2 // UDIAG_SHOW_NAME, UDIAG_SHOW_VFS
	attrName, attrFile = 0, 1 // UNIX_DIAG_NAME, UNIX_DIAG_VFS
	unixMessageSize    = 16   // struct unix_diag_msg
	sockDiagByFamily   = 20   // SOCK_DIAG_BY_FAMILY
	anyOf              = 1<<32 - 1
)

// boundSockets asks the kernel for the sockets in the daemon's network namespace that are bound to a file.
func boundSockets() ([]boundSocket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	ask := unixRequest{family: unix.AF_UNIX, states: anyOf, show: showName | showFile, cookie: [2]uint32{anyOf, anyOf}}
	ask.Len, ask.Type, ask.Flags = uint32(unsafe.Sizeof(ask)), sockDiagByFamily, unix.NLM_F_REQUEST|unix.NLM_F_DUMP
	text := unsafe.Slice((*byte)(unsafe.Pointer(&ask)), unsafe.Sizeof(ask))
	if err := unix.Sendto(fd, text, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	var found []boundSocket
	for answer := make([]byte, 64<<10); ; {
		n, _, err := unix.Recvfrom(fd, answer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		messages, err := syscall.ParseNetlinkMessage(answer[:n])
		if err != nil {
			return nil, err
		}
		for i := range messages {
			m := &messages[i]
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return found, nil
			case unix.NLMSG_ERROR:
				if len(m.Data) < 4 {
					return nil, unix.EBADMSG
				}
				return nil, unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
			case sockDiagByFamily:
				if s, ok := parseSocket(m.Data); ok {
					found = append(found, s)
				}
			}
		}
	}
}

// parseSocket reads the attributes of a socket and reports whether it is bound to a file.
func parseSocket(data []byte) (s boundSocket, ok bool) {
	for data = data[min(len(data), unixMessageSize):]; len(data) >= unix.SizeofRtAttr; {
		size, kind := int(binary.NativeEndian.Uint16(data)), binary.NativeEndian.Uint16(data[2:])
		if size < unix.SizeofRtAttr || size > len(data) {
			break
		}
		switch value := data[unix.SizeofRtAttr:size]; {
		case kind == attrName:
			s.name = strings.TrimRight(string(value), "\x00")
		case kind == attrFile && len(value) >= 8:
			s.file, ok = file{binary.NativeEndian.Uint32(value[4:]), binary.NativeEndian.Uint32(value)}, true
		}
		data = data[min(len(data), (size+3)&^3):]
	}
	return s, ok
}
