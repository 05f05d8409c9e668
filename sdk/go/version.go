package toold

import (
	"context"
	"fmt"
	"regexp"
	"runtime/debug"
	"strconv"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// versionCheck asks the daemon for its version before the first request of a client.
type versionCheck struct {
	done atomic.Bool
	turn chan struct{} // holds a value while a request checks the version
}

// before returns an error when the server is not toold, or when its version does not serve this module.
func (v *versionCheck) before(ctx context.Context, method string, conn *grpc.ClientConn) error {
	if v.done.Load() || method == tooldv1.AdminService_GetInfo_FullMethodName {
		return nil
	}
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	defer func() { <-v.turn }()
	if v.done.Load() {
		return nil
	}
	if err := CheckVersion(ctx, conn); err != nil {
		return err
	}
	v.done.Store(true)
	return nil
}

// CheckVersion returns an [*Error] when the server is not toold, or has a version that does not serve this module. Clients and workers
// check it themselves; a program that makes its own connection can call CheckVersion.
func CheckVersion(ctx context.Context, conn grpc.ClientConnInterface) error {
	info, err := tooldv1.NewAdminServiceClient(conn).GetInfo(ctx, &tooldv1.GetInfoRequest{})
	if status.Code(err) == codes.Unimplemented {
		return refusal(codes.Unimplemented, ReasonNotToold, "the server at this address is not toold")
	}
	if err != nil {
		return typed(err)
	}
	if todo := mismatch(info.GetVersion(), 0); todo != "" {
		return refusal(codes.FailedPrecondition, ReasonVersionMismatch, fmt.Sprintf("the daemon has version %s, and the module %s has version %s: %s", info.GetVersion(), module, version(), todo))
	}
	return nil
}

const module = "github.com/toold-dev/toold"

// version returns the version of the module in this program, for messages.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == module && m.Version != "" {
				return m.Version
			}
		}
	}
	return "unknown"
}

var semantic = regexp.MustCompile(`^v?(\d+)\.(\d+)\.\d+(?:[-+].*)?$`)

// mismatch returns a sentence that says what to upgrade, or "" when a daemon of this version serves the major version of this module. A
// build without a released version, such as v0.0.0 with a time and a commit, serves every client.
func mismatch(daemon string, ours int) string {
	parts := semantic.FindStringSubmatch(daemon)
	if parts == nil {
		return ""
	}
	major, err := strconv.Atoi(parts[1])
	switch {
	case err != nil || major > ours:
		return "upgrade the module to " + parts[1]
	case major < ours:
		return fmt.Sprintf("upgrade the daemon to %d", ours)
	case major == 0 && parts[2] == "0" && !pseudo.MatchString(daemon):
		return "upgrade the daemon to 0.1 or later"
	}
	return ""
}

// pseudo matches the version that the go command gives to a build of a commit before the first release.
var pseudo = regexp.MustCompile(`^v?0\.0\.0-`)
