package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/command"
	"github.com/toold-dev/toold/tools/shell"
)

// profileMark is the key in a tool's metadata that holds the isolation profile of its program.
const profileMark = command.ProfileMark

// manifestConfig returns the configuration with which programs of manifests start.
func manifestConfig(c *config.Config, exec command.Exec, secrets command.Secrets, log *zap.Logger) (command.Config, error) {
	workspace, err := c.WorkspacePath(config.Sharing)
	if err != nil {
		return command.Config{}, err
	}
	own := map[string]string{}
	for _, namespace := range c.WithWorkspaces() {
		if own[namespace], err = c.WorkspacePath(namespace); err != nil {
			return command.Config{}, err
		}
	}
	return command.Config{
		Exec: exec, Workspace: workspace, Workspaces: own, Env: shell.DefaultEnv(), Secrets: secrets, Log: log, Policy: c.Policy,
	}, nil
}

// readManifests creates tools from the manifests and starts none of them. The parameter earlier has the tools of the previous manifests.
// readManifests reuses those that have not changed.
func readManifests(c *config.Config, exec command.Exec, secrets command.Secrets, log *zap.Logger, earlier *command.Set) (*command.Set, error) {
	cfg, err := manifestConfig(c, exec, secrets, log)
	if err != nil {
		return nil, err
	}
	set, err := command.Load(cfg, c.Command.Directory, earlier)
	if err == nil {
		err = checkManifests(c, set)
	}
	if err != nil {
		return nil, config.Errorf("%w", err)
	}
	return set, nil
}

// noSecrets resolves no reference. It is for commands that run no tool.
type noSecrets struct{}

// Resolve implements [command.Secrets].
func (noSecrets) Resolve(context.Context, string, string, string, string) (string, error) {
	return "", errors.New("nothing runs while the configuration is checked")
}

// checkManifests returns errors for tools that the registry would refuse and for secrets that do not exist. Each error names the place in
// the manifest.
func checkManifests(c *config.Config, set *command.Set) error {
	tools := registry.New(registry.Config{AssertFormats: c.Tools.AssertFormats})
	var problems []error
	for _, t := range set.Tools() {
		for _, name := range t.Descriptor().RequiredSecrets {
			if !slices.ContainsFunc(c.Secrets, func(s config.NamedSecret) bool { return s.Name == name }) {
				problems = append(problems, set.Locate(t.Descriptor().ID, "run.secrets", fmt.Errorf("there is no secret %q in the configuration's secrets", name)))
			}
		}
		if _, err := tools.Declared(command.Source, t); err != nil {
			problems = append(problems, locate(set, t.Descriptor().ID, err))
			continue
		}
		if err := tools.Register(command.Source, t); err != nil {
			problems = append(problems, locate(set, t.Descriptor().ID, err))
		}
	}
	return errors.Join(problems...)
}

// locate adds to an error of the registry the place in the manifest.
func locate(set *command.Set, id string, err error) error {
	field, rest, _ := strings.Cut(err.Error(), " ")
	field = strings.TrimSuffix(field, ":")
	if at, ok := errors.AsType[*registry.SchemaError](err); ok {
		field += strings.ReplaceAll(strings.TrimPrefix(at.Pointer, "#"), "/", ".")
		err = errors.New(at.Reason)
	} else if strings.HasPrefix(rest, "is ") || strings.HasPrefix(rest, "has ") || strings.HasPrefix(rest, "holds ") {
		err = errors.New(rest)
	}
	return set.Locate(id, field, err)
}

// ofManifest reports whether a tool comes from a manifest.
func ofManifest(t *tool.Descriptor) bool { return t.Source == command.Source }
