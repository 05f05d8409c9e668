package daemon

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The npm package contains the code, the types and the licence, and npm builds it before it publishes.
func TestNpmPackage(t *testing.T) {
	t.Parallel()
	typescriptSDK(t, "") // builds the package
	cmd := exec.Command("npm", "pack", "--json", "--dry-run", "--ignore-scripts")
	cmd.Dir = "../sdk/typescript"
	out, err := cmd.Output()
	must(t, err)
	var packed []struct{ Files []struct{ Path string } }
	must(t, json.Unmarshal(out, &packed))
	var files []string
	for _, f := range packed[0].Files {
		files = append(files, f.Path)
	}
	for _, want := range []string{"LICENSE", "README.md", "dist/src/index.js", "dist/src/index.d.ts", "dist/gen/toold/v1/call_pb.js", "dist/gen/toold/v1/call_pb.d.ts"} {
		if !slices.Contains(files, want) {
			t.Errorf("%s is not in the package: %v", want, files)
		}
	}
	if slices.ContainsFunc(files, func(f string) bool { return strings.HasPrefix(f, "dist/tests") || strings.HasPrefix(f, "src/") }) {
		t.Errorf("tests or sources are in the package: %v", files)
	}
	var about struct {
		Main, Types, Homepage, Author string
		TypesVersions                 map[string]any
		Scripts                       map[string]string
		Repository                    struct{ Directory string }
	}
	text, err := os.ReadFile("../sdk/typescript/package.json")
	must(t, err)
	must(t, json.Unmarshal(text, &about))
	if about.Scripts["prepack"] != "./build.sh" || about.Main == "" || about.Types == "" || about.TypesVersions == nil || about.Homepage == "" || about.Author == "" || about.Repository.Directory != "sdk/typescript" {
		t.Errorf("package.json says %+v", about)
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
