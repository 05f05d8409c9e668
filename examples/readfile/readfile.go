// Package readfile is a tool that depends on the file system. It returns errors of the file system as results that the model reads.
package readfile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

// Args name the file to read.
type Args struct {
	Path string `json:"path" jsonschema:"The file, relative to the workspace."`
}

const most = 64 << 10

// New returns the tool for files below root. The program that runs the tool chooses root, never the arguments. os.Root keeps every path
// inside it, also through links.
func New(root *os.Root) tool.Tool {
	return typed.New(tool.Descriptor{
		ID:          "read_file",
		Description: "Returns the text of a file, 64 KiB at most.",
		Effects:     tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe, ConcurrencySafe: true},
	}, func(_ context.Context, _ *tool.Call, args Args) (*tool.Result, error) {
		text, err := read(root, args.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return tool.FailCode("NO_SUCH_FILE", "there is no file %s", args.Path), nil
		case errors.Is(err, fs.ErrClosed):
			return nil, err // not an error of the model: the tool cannot work at all
		case err != nil:
			return tool.Fail("cannot read %s: %v", args.Path, err), nil
		}
		return tool.Text(text), nil
	})
}

func read(root *os.Root, path string) (string, error) {
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a named pipe must not block the call
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(errors.New("not a regular file"), err)
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	return string(b), err
}
