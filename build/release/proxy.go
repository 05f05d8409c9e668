package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/zip"
)

// writeProxy adds the module to a tree of files that the go command can use as a module proxy. The module contains the files of the work tree
// that git tracks or does not ignore, with their current content. It excludes nested modules.
func writeProxy(root, version, to string) error {
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
	made, err := commitTime(root)
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, made})
	if err != nil {
		return err
	}
	return addVersion(to, m, map[string][]byte{".info": info, ".mod": mod, ".zip": packed.Bytes()})
}

func addVersion(to string, m module.Version, files map[string][]byte) error {
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
