// Package command makes any program a tool, by a manifest: a YAML file that says what the tool is and how its program is
// started.
//
// A [Set] is the tools of one directory of manifests. The arguments of a call reach the program as elements of its argument
// list, in ARG_ variables or as JSON on its standard input; no shell reads them, and none can be taken for an option. What the
// program prints is the result: text, JSON, or lines of JSON, of which one may also be progress, an activity, output, a
// checkpoint or a question. A program that asks has ended when the answer comes; it is started again, with the answer.
//
// A program runs under the policy of its profile or not at all, and, when its manifest pins it, as it was pinned or not at all.
package command

import (
	"context"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/sandbox"
)

// Source is the name of the source of these tools.
const Source = "command"

// An Exec runs a process to its end and leaves nothing of it behind; [sandbox.Runner] is one.
type Exec interface {
	Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error)
}

// Secrets knows the values of secrets. It is asked when an attempt starts, thus after the call was approved, and refuses a tool that is
// not entitled. The parameter is env. with the variable of the manifest that names the secret. Nothing that a caller sends is ever
// asked for.
type Secrets interface {
	Resolve(ctx context.Context, namespace, tool, parameter, name string) (value string, err error)
}

// Config says where and how programs run. All of it is the operator's.
type Config struct {
	Exec      Exec   // required
	Workspace string // absolute; required: where programs start, and where none may lie
	// Workspaces are those of namespaces that have one of their own instead, by namespace; absolute. None: all have Workspace.
	Workspaces map[string]string
	Env        []string // NAME=value that all programs have beside what their manifests say
	// Policy returns what isolates the programs of a profile in a workspace; a nil policy: nothing does. Required.
	Policy func(profile, workspace string) (*sandbox.Policy, error)
	// Secrets may be nil: then a manifest that names one is refused.
	Secrets Secrets
	Log     *zap.Logger // nil: nothing is logged
}

// ProfileMark is the key of a tool's metadata that names the profile of its program.
const ProfileMark = "profile"

// DefaultProfile is that of manifests that name none.
const DefaultProfile = "default"
