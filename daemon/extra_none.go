//go:build !toold_bench

package daemon

import "github.com/toold-dev/toold/tool"

// extraTools are none in a daemon that is not built for a benchmark.
func extraTools() []tool.Tool { return nil }
