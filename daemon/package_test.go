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

// The wheel and the sdist contain the generated code, the types and the licence. Their bytes depend only on the sources and the version. The
// sdist can be installed without protoc.
func TestPythonPackages(t *testing.T) {
	t.Parallel()
	dir := buildPython(t, "0.1.7")
	again := buildPython(t, "0.1.7")
	for _, name := range []string{"toold-0.1.7-py3-none-any.whl", "toold-0.1.7.tar.gz"} {
		a, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		b, err := os.ReadFile(filepath.Join(again, name))
		must(t, err)
		if !bytes.Equal(a, b) {
			t.Errorf("%s: the same sources give other bytes", name)
		}
	}
	install := exec.Command("/usr/bin/python3", "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation", "--target", "lib", "toold-0.1.7.tar.gz")
	show := exec.Command("/usr/bin/python3", "-B", "-c", `import importlib.metadata as m, toold, toold.v1.turn_pb2
assert toold.__version__ == "0.1.7", toold.__version__
print(*m.files("toold"), m.metadata("toold"), sep="\n")`)
	install.Env, show.Env = append(os.Environ(), "PATH="+t.TempDir()), append(os.Environ(), "PYTHONPATH=lib") // an empty PATH has no protoc
	var out []byte
	for _, cmd := range []*exec.Cmd{install, show} {
		cmd.Dir = dir
		var err error
		if out, err = cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, want := range []string{"toold/v1/call_service_pb2.pyi\n", "toold/v1/call_service_pb2_grpc.py\n", "toold/py.typed\n", "toold/reasons.py\n", "toold/worker.py\n", "dist-info/LICENSE\n",
		"Project-URL: Homepage", "Author: ", "Version: 0.1.7\n", "Requires-Dist: protobuf (>=4.21.12)\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in the package: %s", want, out)
		}
	}
}

// buildPython returns a directory with the wheel and the sdist of a version.
func buildPython(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("../sdk/python/build.sh", dir)
	cmd.Env = append(os.Environ(), "VERSION="+version)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	return dir
}

// Links on the pages of packages must work outside of the repository.
func TestLinksOfPackages(t *testing.T) {
	t.Parallel()
	link, code := regexp.MustCompile(`\]\(([^)]*)\)`), regexp.MustCompile("(?ms)^```.*?^```")
	for _, language := range []string{"go", "python", "react", "typescript"} {
		text, err := os.ReadFile("../sdk/" + language + "/README.md")
		must(t, err)
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			file, ours := strings.CutPrefix(m[1], "https://github.com/toold-dev/toold/")
			if !strings.HasPrefix(m[1], "https://") {
				t.Errorf("%s: %s leads nowhere outside of the repository", language, m[1])
			}
			if !ours {
				continue
			}
			file, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(file, "blob/main/"), "tree/main/"), "#")
			if _, err := os.Stat("../" + file); err != nil {
				t.Errorf("%s: %v", language, err)
			}
		}
	}
}
