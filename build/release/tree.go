package main

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// An entry is a file, a directory or a symbolic link of a tree. Its content is in data or in the file at path.
type entry struct {
	name     string // relative, with slashes
	data     []byte
	path     string
	mode     int64  // 0 means 0644, or 0755 for a directory
	dir      bool   // a directory; parents of files need no entry
	link     string // target of a symbolic link
	uid, gid int
}

func (e entry) content() ([]byte, error) {
	if e.path == "" {
		return e.data, nil
	}
	return os.ReadFile(e.path)
}

func (e entry) header(made time.Time, size int) *tar.Header {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: cmp.Or(e.mode, 0o644), Size: int64(size), ModTime: made, Uid: e.uid, Gid: e.gid}
	switch {
	case e.dir:
		h.Typeflag, h.Name, h.Mode = tar.TypeDir, e.name+"/", cmp.Or(e.mode, 0o755)
	case e.link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.link, 0o777
	}
	return h
}

// withParents adds the missing directories, sorts the tree by name and refuses a name that occurs twice.
func withParents(tree []entry) ([]entry, error) {
	known := map[string]bool{".": true}
	for _, e := range tree {
		if known[e.name] {
			return nil, fmt.Errorf("%s occurs twice", e.name)
		}
		known[e.name] = true
	}
	all := slices.Clone(tree)
	for _, e := range tree {
		for parent := path.Dir(e.name); !known[parent]; parent = path.Dir(parent) {
			known[parent] = true
			all = append(all, entry{name: parent, dir: true})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

// writeTar writes a tree as a tar archive whose bytes depend on the tree and the time only.
func writeTar(to io.Writer, tree []entry, made time.Time) error {
	tree, err := withParents(tree)
	if err != nil {
		return err
	}
	w := tar.NewWriter(to)
	for _, e := range tree {
		content, err := e.content()
		if err != nil {
			return err
		}
		if err := w.WriteHeader(e.header(made, len(content))); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
	}
	return w.Close()
}

func writeTarGz(to io.Writer, tree []entry, made time.Time) error {
	z, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(writeTar(z, tree, made), z.Close())
}

// create writes a file of the release.
func (r *release) create(name string, write func(io.Writer) error) (err error) {
	f, err := os.Create(filepath.Join(r.dir, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f)
}

// archive writes the tree below one folder. Its content can be unpacked to /usr/local.
func (r *release) archive(arch string, tree []entry) error {
	name := fmt.Sprintf("toold_%s_linux_%s", r.version, arch)
	inside := slices.Clone(tree)
	for i := range inside {
		inside[i].name = name + "/" + inside[i].name
	}
	return r.create(name+".tar.gz", func(w io.Writer) error { return writeTarGz(w, inside, r.made) })
}
