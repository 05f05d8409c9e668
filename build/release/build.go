package main

import (
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// names are the programs of a release. toold-sandbox must be in the same folder as toold.
var names = []string{"toold", "toold-sandbox"}

type program struct{ name, arch, path string }

func programsOf(work, arch string) (all []program) {
	for _, name := range names {
		all = append(all, program{name, arch, filepath.Join(work, arch, name)})
	}
	return all
}

// binaries returns the programs as entries of a tree.
func binaries(work, arch string) (tree []entry) {
	for _, p := range programsOf(work, arch) {
		tree = append(tree, entry{name: "bin/" + p.name, path: p.path, mode: 0o755})
	}
	return tree
}

// build compiles the programs for all architectures and returns the modules that they contain, as path@version.
func (r *release) build(work string) ([]string, error) {
	modules := map[string]bool{}
	for _, arch := range architectures {
		for _, p := range programsOf(work, arch) {
			flags := "-s -w"
			if p.name == "toold" {
				flags += " -X github.com/toold-dev/toold/daemon.version=" + r.version
			}
			cmd := r.command("go", "build", "-trimpath", "-buildvcs=true", "-tags=grpcnotrace", "-ldflags", flags, "-o", p.path, "./cmd/"+p.name)
			cmd.Env = append(cmd.Env, "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off", "GOFLAGS=", "GOFIPS140=off", "GOEXPERIMENT=")
			if err := cmd.Run(); err != nil {
				return nil, err
			}
			info, err := buildinfo.ReadFile(p.path)
			if err != nil {
				return nil, err
			}
			for _, m := range info.Deps {
				modules[m.Path+"@"+m.Version] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(modules)), nil
}

// commandLine returns the man pages, the completions and the unit as entries of a tree.
func (r *release) commandLine(work string) (tree []entry, err error) {
	dir := filepath.Join(work, "commandline")
	cmd := r.command("go", "run", ".", "-to", dir, "-version", r.version, "-time", strconv.FormatInt(r.made.Unix(), 10))
	cmd.Dir = filepath.Join(r.root, "build", "commandline")
	cmd.Env = append(cmd.Env, "GOFLAGS=-tags=grpcnotrace")
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "man1", "*"))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		packed, err := gzipped(text)
		if err != nil {
			return nil, err
		}
		tree = append(tree, entry{name: "share/man/man1/" + filepath.Base(page) + ".gz", data: packed})
	}
	return append(tree,
		entry{name: "share/bash-completion/completions/toold", path: filepath.Join(dir, "toold.bash")},
		entry{name: "share/zsh/site-functions/_toold", path: filepath.Join(dir, "_toold")},
		entry{name: "share/fish/vendor_completions.d/toold.fish", path: filepath.Join(dir, "toold.fish")},
		entry{name: unit, path: filepath.Join(r.root, "deploy", "toold.service")},
	), nil
}

// gzipped compresses a text without a name and a time.
func gzipped(text []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}
