package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// A component is a part of the programs that others wrote: a module, or Go's standard library.
type component struct {
	path, version string
	sha256        string // of the module's zip file; "" for the standard library
	license       string // an SPDX expression
	texts         []byte // the license files with their names
}

// licenseFiles matches the names of files with terms of use.
var licenseFiles = regexp.MustCompile(`(?i)^(.*-)?(licen[cs]e|copying|notice|copyright|patents)([-.].*)?$`)

// components reads the licenses of all modules and of the standard library. It fails when a license is not known.
func (r *release) components(modules []string) ([]component, error) {
	cmd := r.command("go", append([]string{"mod", "download", "-json"}, modules...)...)
	cmd.Stdout = nil
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go mod download: %w", err)
	}
	goVersion := strings.TrimPrefix(runtime.Version(), "go")
	std, err := newComponent("std", goVersion, runtime.GOROOT()) //nolint:staticcheck // go run sets GOROOT
	if err != nil {
		return nil, err
	}
	all := []component{std}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Version, Dir, Zip string }
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		c, err := newComponent(m.Path, m.Version, m.Dir)
		if err != nil {
			return nil, err
		}
		if c.sha256, err = sumOf(m.Zip); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
}

// newComponent reads the license files in a directory.
func newComponent(path, version, dir string) (component, error) {
	c := component{path: path, version: version}
	files, err := os.ReadDir(dir)
	if err != nil {
		return c, err
	}
	ids := map[string]bool{}
	var texts bytes.Buffer
	for _, f := range files {
		if !f.Type().IsRegular() || !licenseFiles.MatchString(f.Name()) || strings.HasSuffix(f.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return c, err
		}
		fmt.Fprintf(&texts, "--- %s\n\n%s\n", f.Name(), bytes.TrimSpace(text))
		for _, m := range licensecheck.Scan(text).Match {
			if m.ID != "GooglePatentsFile" { // This file grants patents in addition to the license. SPDX has no name for it.
				ids[m.ID] = true
			}
		}
	}
	if len(ids) == 0 {
		return c, fmt.Errorf("%s@%s: no known license in %s", path, version, dir)
	}
	c.license, c.texts = strings.Join(slices.Sorted(maps.Keys(ids)), " AND "), texts.Bytes()
	return c, nil
}

// copyright returns the license of toold, the list of all licenses and their texts.
func (r *release) copyright(all []component) ([]byte, error) {
	own, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "toold %s has the license Apache-2.0. The programs contain parts that have other licenses:\n\n", r.version)
	for _, c := range all {
		fmt.Fprintf(&b, "%s %s: %s\n", c.path, c.version, c.license)
	}
	fmt.Fprintf(&b, "\n==== toold\n\n%s\n", bytes.TrimSpace(own))
	for _, c := range all {
		fmt.Fprintf(&b, "\n==== %s %s\n\n%s", c.path, c.version, c.texts)
	}
	return b.Bytes(), nil
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
