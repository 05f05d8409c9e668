// Command commandline writes the man pages and the shell completions of toold, from the commands themselves:
//
//	commandline -to DIRECTORY -version 0.1.0 -time 1767225600
//
// It is a separate module, because the renderer of man pages is not a dependency of toold.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/toold-dev/toold/daemon"
)

func main() {
	to := flag.String("to", "", "directory for man1/ and the completions; required")
	version := flag.String("version", "", "version that the pages name")
	seconds := flag.Int64("time", 0, "date of the pages, in seconds since 1970")
	flag.Parse()
	if err := write(*to, *version, time.Unix(*seconds, 0).UTC()); err != nil {
		fmt.Fprintln(os.Stderr, "commandline:", err)
		os.Exit(1)
	}
}

func write(to, version string, date time.Time) error {
	man := filepath.Join(to, "man1")
	if err := os.MkdirAll(man, 0o755); err != nil {
		return err
	}
	root := daemon.Command()
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true
	keepTables(root)
	header := &doc.GenManHeader{Section: "1", Source: "toold " + version, Manual: "toold", Date: &date}
	if err := doc.GenManTree(root, header, man); err != nil {
		return err
	}
	return cmp.Or(
		root.GenBashCompletionFileV2(filepath.Join(to, "toold.bash"), true),
		root.GenZshCompletionFile(filepath.Join(to, "_toold")),
		root.GenFishCompletionFile(filepath.Join(to, "toold.fish"), true),
	)
}

// keepTables indents the indented lines of help texts as far as Markdown requires, so that a man page does not join them to a paragraph.
func keepTables(c *cobra.Command) {
	lines := strings.Split(c.Long, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  ") {
			lines[i] = "  " + line
		}
	}
	c.Long = strings.Join(lines, "\n")
	for _, below := range c.Commands() {
		keepTables(below)
	}
}
