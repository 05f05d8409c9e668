package cli

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func versionCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "version", Short: "Print the version of this program", Example: "  toold version", Args: NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.Output != FormTable {
				return json.NewEncoder(a.Out).Encode(map[string]string{"version": a.Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
			}
			fmt.Fprintf(a.Out, "toold %s %s %s/%s\n", a.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
