// Package command makes a tool from any program. A manifest, which is a YAML file, describes the tool and how to start its program.
//
// A [Set] holds the tools of one directory of manifests. The arguments of a call reach the program in three ways: as elements of its
// argument list, in ARG_ variables, or as JSON on its standard input. No shell reads them, and the program cannot take an argument for an
// option.
//
// The output of the program is the result: text, JSON, or lines of JSON. A line may also contain progress, an activity, output, a
// checkpoint or a question. A program that asks a question ends. toold starts it again when the answer arrives.
//
// A program runs only under the policy of its profile. When the manifest pins a program to a digest, toold starts only a file with this
// digest.
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
// entitled to the secret. For a secret that the program gets in a variable, parameter is "env." and the name of the variable. For a secret
// that the program reads from a file descriptor, parameter is "descriptor." and the name of the variable with the number of the descriptor.
// Only the manifest contains secret names; arguments of callers never do.
type Secrets interface {
	Resolve(ctx context.Context, namespace, tool, parameter, name string) (value string, err error)
}

// Config configures where and how programs run. Only the operator sets it.
type Config struct {
	Exec      Exec   // starts the programs; required
	Workspace string // Absolute path of the directory where programs start. Required. No program may be stored in it.
	// Workspaces maps a namespace to its separate workspace, an absolute path. Other namespaces use Workspace.
	Workspaces map[string]string
	Env        []string // NAME=value for all programs, in addition to the variables in their manifests
	// Policy returns the policy that isolates the programs of a profile in a workspace. A nil policy means no isolation. The function
	// Policy is required.
	Policy func(profile, workspace string) (*sandbox.Policy, error)
	// Secrets resolves the secrets in manifests. When it is nil, a manifest that refers to a secret is rejected.
	Secrets Secrets
	Log     *zap.Logger // nil disables logging
}

// ProfileMark is a key in the metadata of a tool. Its value is the profile of the tool's program.
const ProfileMark = "profile"

// DefaultProfile is the profile of manifests that name none.
const DefaultProfile = "default"
