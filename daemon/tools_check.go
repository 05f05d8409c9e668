package daemon

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli"
	"github.com/toold-dev/toold/cli/show"
	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/tools/command"
)

func toolCheckCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use: "check FILE|DIRECTORY...", Short: "Check manifests of programs, without a daemon",
		Long: `Reads manifests as the daemon does. For each problem the command prints the
file, the line, the column and the correction. For a directory it reads all
.yaml files. docs/reference/tools/command.md describes manifests.`,
		Example: "  toold tools check /etc/toold/tools\n  toold tools check greet.yaml --workspace /srv/work",
		Args:    cli.AtLeast("a FILE or a DIRECTORY"),
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := loadConfig(a, c)
			if err != nil {
				return err
			}
			var problems []error
			for _, path := range args {
				set, err := checkedManifests(cfg, path)
				if err != nil {
					problems = append(problems, err)
					continue
				}
				for _, t := range set.Tools() {
					d := t.Descriptor()
					fmt.Fprintf(a.Out, "%s is good: %s, version %s\n", show.Line(path), show.Line(d.ID), show.Line(d.Version))
				}
			}
			if err := errors.Join(problems...); err != nil {
				return cli.Fail(cli.ExitUsage, err)
			}
			return nil
		},
	}
	config.AddFlags(c.Flags())
	return c
}

func checkedManifests(c *config.Config, path string) (*command.Set, error) {
	cfg, err := manifestConfig(c, noExec{}, noSecrets{}, nil)
	if err != nil {
		return nil, err
	}
	load := command.LoadFile
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		load = func(cfg command.Config, path string) (*command.Set, error) { return command.Load(cfg, path, nil) }
	}
	set, err := load(cfg, path)
	if err == nil {
		err = checkManifests(c, set)
	}
	return set, err
}
