package wire

import (
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/lifecycle/custody"
	"github.com/toold-dev/toold/lifecycle/documents"
	"github.com/toold-dev/toold/lifecycle/policy"
	"github.com/toold-dev/toold/lifecycle/purge"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/lifecycle/watch"
	grpcserver "github.com/toold-dev/toold/server/grpc"
)

// Engine returns what the server asks of an engine and of its parts.
func Engine(e *lifecycle.Engine) grpcserver.Engine {
	return struct {
		*lifecycle.Engine
		*policy.Service
		*custody.Custody
		*purge.Purger
		*view.Records
		*view.Artifacts
		watches
		*documents.Editor
	}{e, e.Policies(), e.Custody(), e.Purger(), e.Records(), e.Artifacts(), watches{e.Watches()}, e.Editor()}
}

// watches has a name of its own among the embedded parts.
type watches struct{ *watch.Service }
