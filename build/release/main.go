// Command release writes toold as a tree of files that the go command can use as a module proxy:
//
//	release -root DIRECTORY -version v0.1.0 -to PROXY
//	GOPROXY="file://PROXY,$(go env GOPROXY)" GONOSUMDB=github.com/toold-dev/toold go get github.com/toold-dev/toold@v0.1.0
//
// The module contains the files of the work tree that git tracks or does not ignore, with their current content. It excludes nested
// modules.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/zip"
)

func main() {
	root := flag.String("root", ".", "directory of the module")
	version := flag.String("version", "", "semantic version, such as v0.1.0; required")
	to := flag.String("to", "", "directory of the proxy; required")
	flag.Parse()
	if err := release(*root, *version, *to); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func release(root, version, to string) error {
	if semver.Canonical(version) != version || to == "" {
		return fmt.Errorf("-version %q, -to %q: want a version such as v0.1.0 and a directory", version, to)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	m := module.Version{Path: modfile.ModulePath(mod), Version: version}
	if err := module.Check(m.Path, m.Version); err != nil {
		return err
	}
	files, err := filesOf(root)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := zip.Create(&packed, m, files); err != nil {
		return err
	}
	at, err := git(root, "log", "-1", "--format=%cI")
	if err != nil {
		return err
	}
	made, err := time.Parse(time.RFC3339, strings.TrimSpace(at))
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, made.UTC()})
	if err != nil {
		return err
	}
	return write(to, m, map[string][]byte{".info": info, ".mod": mod, ".zip": packed.Bytes()})
}

// write adds a version to the proxy tree.
func write(to string, m module.Version, files map[string][]byte) error {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	dir := filepath.Join(to, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for ending, text := range files {
		if err := os.WriteFile(filepath.Join(dir, m.Version+ending), text, 0o644); err != nil {
			return err
		}
	}
	list := filepath.Join(dir, "list")
	known, err := os.ReadFile(list)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	versions := strings.Fields(string(known))
	for _, v := range versions {
		if v == m.Version {
			return nil
		}
	}
	versions = append(versions, m.Version)
	semver.Sort(versions)
	return os.WriteFile(list, []byte(strings.Join(versions, "\n")+"\n"), 0o644)
}

// A file is a file of the work tree.
type file struct{ root, path string }

func (f file) Path() string                 { return filepath.ToSlash(f.path) }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(f.root, f.path)) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.root, f.path)) }

func filesOf(root string) (files []zip.File, err error) {
	names, err := git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	if err != nil {
		return nil, err
	}
	for _, name := range strings.FieldsFunc(names, func(r rune) bool { return r == 0 }) {
		f := file{root, filepath.FromSlash(name)}
		info, err := f.Lstat()
		switch {
		case os.IsNotExist(err): // deleted but not yet committed
		case err != nil:
			return nil, err
		case info.Mode().IsRegular():
			files = append(files, f)
		}
	}
	return files, nil
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return string(out), nil
}
