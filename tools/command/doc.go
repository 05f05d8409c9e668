// Package command turns any program into a tool. A manifest, which is a YAML file, describes the tool and how to start its program.
//
// A [Set] holds the tools of one directory of manifests. The arguments of a call reach the program in three ways: as elements of its
// argument list, in ARG_ variables, or as JSON on its standard input. No shell reads them, and a program cannot take one for an option.
//
// The output of the program is the result: text, JSON, or lines of JSON. Such a line may also be progress, an activity, output, a
// checkpoint or a question. A program that asks a question ends before the answer comes. It is started again with the answer.
//
// A program runs only under the policy of its profile. When the manifest pins the program, it runs only unchanged.
package command

import (
	"context"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/sandbox"
)

// Source is the source name of these tools.
const Source = "command"

// An Exec runs a process to its end and leaves no process behind; [sandbox.Runner] is one.
type Exec interface {
	Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error)
}

// Secrets resolves secrets. Resolve is called when an attempt starts, so after the call was approved. It must refuse a tool that is not
// entitled to the secret. The parameter is "env." or "descriptor.", followed by the variable in the manifest that names the secret. Names
// from callers are never resolved.
type Secrets interface {
	Resolve(ctx context.Context, namespace, tool, parameter, name string) (value string, err error)
}

// Config configures where and how programs run. The operator sets all of it.
type Config struct {
	Exec      Exec   // required
	Workspace string // Directory where programs start. It is an absolute path and required. No program may lie in it.
	// Workspaces maps a namespace to its separate workspace, an absolute path. Other namespaces use Workspace.
	Workspaces map[string]string
	Env        []string // NAME=value for all programs, in addition to the variables in their manifests
	// Policy returns the policy that isolates the programs of a profile in a workspace. A nil policy means no isolation. Policy is
	// required.
	Policy func(profile, workspace string) (*sandbox.Policy, error)
	// Secrets may be nil. Then a manifest that names a secret is rejected.
	Secrets Secrets
	Log     *zap.Logger // nil disables logging
}

// ProfileMark is the key of a tool's metadata that names the profile of its program.
const ProfileMark = "profile"

// DefaultProfile is the profile of manifests that name none.
const DefaultProfile = "default"
