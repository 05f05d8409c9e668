package wire

import (
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/lifecycle/custody"
	"github.com/toold-dev/toold/lifecycle/documents"
	"github.com/toold-dev/toold/lifecycle/policy"
	"github.com/toold-dev/toold/lifecycle/purge"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/lifecycle/watch"
	"github.com/toold-dev/toold/server/service"
)

// Engine combines an engine and its parts into the interface that the server needs.
func Engine(e *lifecycle.Engine) service.Engine {
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

// watches wraps the service in a type, because two embedded fields cannot both be named Service.
type watches struct{ *watch.Service }
