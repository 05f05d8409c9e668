package daemon

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The npm package contains the code, the types and the licence, and its bytes depend only on the sources and the version.
func TestNpmPackage(t *testing.T) {
	t.Parallel()
	tarball := packNpm(t, "0.1.7")
	if !bytes.Equal(tarball, packNpm(t, "0.1.7")) {
		t.Error("the same sources give other bytes")
	}
	files := unpack(t, tarball)
	if code := files["dist/gen/version.js"]; !strings.Contains(code, `"0.1.7"`) {
		t.Errorf("the code has another version than the package: %s", code)
	}
	for _, want := range []string{"LICENSE", "README.md", "dist/src/index.js", "dist/src/index.d.ts", "dist/gen/toold/v1/call_pb.js", "dist/gen/toold/v1/call_pb.d.ts"} {
		if files[want] == "" {
			t.Errorf("%s is not in the package", want)
		}
	}
	for f := range files {
		if strings.HasPrefix(f, "dist/tests") || strings.HasPrefix(f, "src/") || strings.HasSuffix(f, ".sh") {
			t.Errorf("the package has %s, which only developers need", f)
		}
	}
	var about struct {
		Version, Main, Types, Homepage, Author string
		TypesVersions                          map[string]any
		Scripts                                map[string]string
		Repository                             struct{ Directory string }
	}
	must(t, json.Unmarshal([]byte(files["package.json"]), &about))
	if about.Version != "0.1.7" || about.Scripts["prepack"] != "./build.sh" || about.Main == "" || about.Types == "" || about.TypesVersions == nil || about.Homepage == "" || about.Author == "" || about.Repository.Directory != "sdk/typescript" {
		t.Errorf("package.json says %+v", about)
	}
}

// packNpm returns the npm package with a version.
func packNpm(t *testing.T, version string) []byte {
	t.Helper()
	typescriptSDK(t, "") // skips the test on a machine without Node
	dir := t.TempDir()
	cmd := exec.Command("../sdk/typescript/pack.sh", dir)
	cmd.Env = append(os.Environ(), "VERSION="+version)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("pack.sh: %v\n%s", err, out)
	}
	tarball, err := os.ReadFile(filepath.Join(dir, "toold-"+version+".tgz"))
	must(t, err)
	return tarball
}

// unpack returns the files of an npm package by their path.
func unpack(t *testing.T, tarball []byte) map[string]string {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(tarball))
	must(t, err)
	files := map[string]string{}
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must(t, err)
		text, err := io.ReadAll(r)
		must(t, err)
		files[strings.TrimPrefix(h.Name, "package/")] = string(text)
	}
}

// The wheel contains the generated code and the licence, and accepts the current version of protobuf.
func TestWheel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, pythonSDK(t, "-c", "").Run()) // generates the code
	must(t, os.CopyFS(filepath.Join(dir, "python"), os.DirFS("../sdk/python")))
	build := exec.Command("/usr/bin/python3", "-c", "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])", dir)
	build.Dir = filepath.Join(dir, "python")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	list := `import sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
print(*z.namelist(), sep="\n")
print(z.read(next(n for n in z.namelist() if n.endswith("METADATA"))).decode())`
	out, err := exec.Command("/usr/bin/python3", "-c", list, filepath.Join(dir, "toold-0.1.0-py3-none-any.whl")).Output()
	must(t, err)
	for _, want := range []string{"toold/v1/call_service_pb2.py\n", "toold/worker.py\n", "dist-info/LICENSE\n", "Project-URL: Homepage", "Author: ", "Requires-Dist: protobuf (>=3.21.12)\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in the wheel: %s", want, out)
		}
	}
}

// Links on the pages of packages must work outside of the repository.
func TestLinksOfPackages(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)]*)\)`)
	for _, language := range []string{"go", "python", "typescript"} {
		text, err := os.ReadFile("../sdk/" + language + "/README.md")
		must(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			file, ours := strings.CutPrefix(m[1], "https://github.com/toold-dev/toold/")
			if !strings.HasPrefix(m[1], "https://") {
				t.Errorf("%s: %s leads nowhere outside of the repository", language, m[1])
			}
			if !ours {
				continue
			}
			file = strings.TrimPrefix(strings.TrimPrefix(file, "blob/main/"), "tree/main/")
			if _, err := os.Stat("../" + file); err != nil {
				t.Errorf("%s: %v", language, err)
			}
		}
	}
}
