package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var made = time.Date(2027, 3, 14, 15, 9, 26, 0, time.UTC)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// testRelease returns a release without a repository, in a new directory.
func testRelease(t *testing.T) *release {
	return &release{root: t.TempDir(), dir: t.TempDir(), version: "1.2.0-rc.1", tag: "v1.2.0-rc.1", commit: "c0ffee", made: made}
}

func TestArchiveDependsOnItsTreeOnly(t *testing.T) {
	tree := []entry{
		{name: "usr/bin/b", data: []byte("b"), mode: 0o755}, {name: "usr/bin/a", data: []byte("a")}, {name: "bin", link: "usr/bin"}, {name: "tmp", dir: true, mode: 0o1777},
		{name: "usr/share/" + strings.Repeat("long", 40), data: []byte("x")}, {name: "usr/share/é", data: []byte("é")},
	}
	var first, second bytes.Buffer
	must(t, writeTarGz(&first, tree, made))
	slices.Reverse(tree)
	must(t, writeTarGz(&second, tree, made))
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the order of the entries changes the bytes")
	}
	if err := writeTar(io.Discard, append(tree, tree[0]), made); err == nil {
		t.Error("a name that occurs twice is accepted")
	}
	names := list(t, first.Bytes())
	if got := strings.Join(names[:4], " "); got != "bin tmp/ usr/ usr/bin/" || len(names) != 9 {
		t.Errorf("entries %q", names)
	}
}

// list returns the names in a compressed archive.
func list(t *testing.T, packed []byte) (names []string) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		must(t, err)
		if !h.ModTime.Equal(made) {
			t.Errorf("%s has the time %v", h.Name, h.ModTime)
		}
		names = append(names, h.Name)
	}
}

// dpkg can read the package, and the unit in it starts /usr/bin/toold.
func TestDebianPackage(t *testing.T) {
	r := testRelease(t)
	root, err := filepath.Abs("../..")
	must(t, err)
	r.root = root
	must(t, r.deb("arm64", []entry{
		{name: "bin/toold", data: []byte("program"), mode: 0o755}, {name: "share/zsh/site-functions/_toold", data: []byte("x")}, {name: unit, path: filepath.Join(root, "deploy", "toold.service")},
	}))
	deb := filepath.Join(r.dir, "toold_1.2.0~rc.1_arm64.deb")
	fields := dpkg(t, "--field", deb, "Package", "Version", "Architecture")
	if want := "Package: toold\nVersion: 1.2.0~rc.1\nArchitecture: arm64\n"; fields != want {
		t.Errorf("fields\n%s", fields)
	}
	into := t.TempDir()
	dpkg(t, "--raw-extract", deb, into)
	service, err := os.ReadFile(filepath.Join(into, "usr", unit))
	must(t, err)
	if !strings.Contains(string(service), "\nExecStart=/usr/bin/toold serve ") || strings.Contains(string(service), "/usr/local") {
		t.Errorf("the unit\n%s", service)
	}
	sums, err := os.ReadFile(filepath.Join(into, "DEBIAN", "md5sums"))
	must(t, err)
	if !strings.Contains(string(sums), "  usr/share/zsh/vendor-completions/_toold\n") {
		t.Errorf("sums\n%s", sums)
	}
	for _, name := range []string{"etc/toold/toold.yaml", "DEBIAN/postinst", "DEBIAN/postrm", "DEBIAN/prerm"} {
		if _, err := os.Stat(filepath.Join(into, name)); err != nil {
			t.Error(err)
		}
	}
}

// A purge keeps the data unless TOOLD_PURGE_DATA is 1, and never follows a link.
func TestPurge(t *testing.T) {
	script, err := os.ReadFile("../../deploy/debian/postrm")
	must(t, err)
	for value, left := range map[string]string{"": "store work", "0": "store work", "yes": "store work", "1": ""} {
		dir := t.TempDir()
		store, work, outside := filepath.Join(dir, "store"), filepath.Join(dir, "work"), filepath.Join(dir, "outside")
		write(t, filepath.Join(outside, "kept"), "x")
		must(t, os.MkdirAll(store, 0o755))
		must(t, os.Symlink(outside, filepath.Join(store, "link")))
		must(t, os.Symlink(outside, work))
		here := strings.NewReplacer("/var/lib/toold", store, "/srv/toold", work, "/usr/bin/", dir+"/none/", "/run/", dir+"/none/", "getent passwd toold", "false")
		for _, step := range []string{"remove", "purge"} {
			cmd := exec.Command("sh", "-c", here.Replace(string(script)), "postrm", step)
			cmd.Env = append(os.Environ(), "TOOLD_PURGE_DATA="+value)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", step, err, out)
			}
		}
		var names []string
		for _, name := range []string{"store", "work"} {
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				names = append(names, name)
			}
		}
		if _, err := os.Stat(filepath.Join(outside, "kept")); err != nil || strings.Join(names, " ") != left {
			t.Errorf("with TOOLD_PURGE_DATA=%s the purge leaves %q, %v; want %q", value, names, err, left)
		}
	}
}

func dpkg(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("dpkg-deb", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(t, err)
	return string(out)
}

// lockPackages writes Debian packages into the cache, and a lock file that names them. Nothing is then downloaded.
func lockPackages(t *testing.T, r *release, packages map[string][]entry) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	cache, err := os.UserCacheDir()
	must(t, err)
	lock := "# comment\n"
	for _, arch := range architectures {
		for name, data := range packages {
			var deb bytes.Buffer
			control := fmt.Sprintf("Package: %s\nVersion: 1:2-3\nArchitecture: %s\nMaintainer: m <m@example.org>\nDescription: d\n", name, arch)
			must(t, writeDeb(&deb, []entry{{name: "control", data: []byte(control)}}, data, made))
			sum := fmt.Sprintf("%x", sha256.Sum256(deb.Bytes()))
			write(t, filepath.Join(cache, "toold-release", sum+".deb"), deb.String())
			lock += fmt.Sprintln(arch, name, "1:2-3", sum)
		}
	}
	write(t, filepath.Join(r.root, lockFile), lock)
}

func base() map[string][]entry {
	return map[string][]entry{
		"base-passwd": {{name: "usr/share/base-passwd/passwd.master", data: []byte("root:x:0:0::/root:/bin/sh\n")}, {name: "usr/share/base-passwd/group.master", data: []byte("root:x:0:\n")}},
		"libc-bin":    {{name: "usr/share/libc-bin/nsswitch.conf", data: []byte("passwd: files\n")}, {name: "sbin/ldconfig", data: []byte("l")}},
		"certificates": {
			{name: "usr/share/ca-certificates/mozilla/b.crt", data: []byte("B\n")}, {name: "usr/share/ca-certificates/mozilla/a.crt", data: []byte("A")},
			{name: "usr/share/doc/certificates/copyright", data: []byte("c")}, {name: "usr/share/doc/certificates/changelog", data: []byte("c")}, {name: "usr/share/man/man8/x.8", data: []byte("m")},
		},
	}
}

// An image is complete: everything that it names has the digest that it names, and its layers contain what the scripts of the packages would
// have created.
func TestImage(t *testing.T) {
	r := testRelease(t)
	lockPackages(t, r, base())
	work := t.TempDir()
	for _, arch := range architectures {
		for _, p := range programsOf(work, arch) {
			write(t, p.path, p.name+" for "+arch)
		}
	}
	must(t, r.image(work))
	blobs := unpackLayout(t, filepath.Join(r.dir, "toold_1.2.0-rc.1_oci.tar"))
	var top, all index
	decode(t, blobs["index.json"], &top)
	decode(t, blobs[top.Manifests[0].Digest], &all)
	for i, d := range all.Manifests {
		var m manifest
		var c imageConfig
		decode(t, blobs[d.Digest], &m)
		decode(t, blobs[m.Config.Digest], &c)
		if d.Platform.Architecture != architectures[i] || c.Architecture != architectures[i] || c.Config.User != "65532:65532" || len(m.Layers) != 2 || len(c.RootFS.DiffIDs) != 2 {
			t.Errorf("%+v\n%+v", d, c)
		}
		debian, own := list(t, blobs[m.Layers[0].Digest]), list(t, blobs[m.Layers[1].Digest])
		for _, want := range []string{"sbin", "usr/sbin/ldconfig", "etc/ssl/certs/ca-certificates.crt", "etc/passwd", "usr/bin/awk", "usr/share/doc/certificates/copyright", "var/lib/dpkg/status.d/libc-bin"} {
			if !slices.Contains(debian, want) {
				t.Errorf("the layer of Debian has no %s: %q", want, debian)
			}
		}
		if slices.Contains(debian, "usr/share/man/man8/x.8") || slices.Contains(debian, "usr/share/doc/certificates/changelog") {
			t.Errorf("the layer of Debian contains pages: %q", debian)
		}
		for _, want := range []string{"usr/local/bin/toold", "usr/local/bin/toold-sandbox", "var/lib/toold/", "workspace/", "etc/passwd"} {
			if !slices.Contains(own, want) {
				t.Errorf("the layer of toold has no %s: %q", want, own)
			}
		}
	}
}

func decode(t *testing.T, text []byte, to any) {
	t.Helper()
	must(t, json.Unmarshal(text, to))
}

// unpackLayout returns the blobs of a layout by digest, and index.json. It checks the digests.
func unpackLayout(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	blobs := map[string][]byte{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return blobs
		}
		must(t, err)
		b, err := io.ReadAll(r)
		must(t, err)
		name, blob := strings.CutPrefix(h.Name, "blobs/sha256/")
		if !blob {
			blobs[name] = b
		} else if name != "" {
			if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != name {
				t.Errorf("blob %s has the digest %s", name, got)
			}
			blobs["sha256:"+name] = b
		}
	}
}

func TestImageRefuses(t *testing.T) {
	r := testRelease(t)
	packages := base()
	packages["second"] = []entry{{name: "usr/sbin/ldconfig", data: []byte("other")}}
	lockPackages(t, r, packages)
	if _, err := r.imageOf(&layout{known: map[string]bool{}}, t.TempDir(), "amd64"); err == nil || !strings.Contains(err.Error(), "usr/sbin/ldconfig is also in another package") {
		t.Errorf("a file in two packages: %v", err)
	}
	write(t, filepath.Join(r.root, lockFile), "amd64 bash 5\n")
	if _, err := readLock(filepath.Join(r.root, lockFile), "amd64"); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("a lock file without a checksum: %v", err)
	}
	if _, err := readLock(filepath.Join(r.root, lockFile), "arm64"); err == nil || !strings.Contains(err.Error(), "no packages for arm64") {
		t.Errorf("a lock file without an architecture: %v", err)
	}
}

func TestLicenses(t *testing.T) {
	dir := t.TempDir()
	if _, err := newComponent("m", "v1", dir); err == nil {
		t.Error("a module without a license is accepted")
	}
	write(t, filepath.Join(dir, "LICENSE"), "You may do whatever I say.")
	if _, err := newComponent("m", "v1", dir); err == nil || !strings.Contains(err.Error(), "no known license") {
		t.Errorf("an unknown license: %v", err)
	}
	own, err := os.ReadFile("../../LICENSE")
	must(t, err)
	write(t, filepath.Join(dir, "LICENSE"), string(own))
	write(t, filepath.Join(dir, "NOTICE.txt"), "Made by people.")
	c, err := newComponent("m", "v1", dir)
	if err != nil || c.license != "Apache-2.0" || !strings.Contains(string(c.texts), "Made by people.") {
		t.Errorf("%q, %v\n%s", c.license, err, c.texts)
	}
}

// A final version needs its section in the changelog and the image of its protos. A pre-release does not.
func TestFinalVersionIsDescribed(t *testing.T) {
	r := testRelease(t)
	must(t, r.checkNotes())
	r.version, r.tag = "1.2.0", "v1.2.0"
	write(t, filepath.Join(r.root, "CHANGELOG.md"), "# Changes\n\n## 1.2.0-rc.1\n")
	if err := r.checkNotes(); err == nil || !strings.Contains(err.Error(), "## 1.2.0") {
		t.Errorf("without a section: %v", err)
	}
	write(t, filepath.Join(r.root, "CHANGELOG.md"), "# Changes\n\n## 1.2.0\n")
	if err := r.checkNotes(); err == nil || !strings.Contains(err.Error(), "make proto-image VERSION=v1.2.0") {
		t.Errorf("without the protos: %v", err)
	}
	write(t, filepath.Join(r.root, "proto/releases/1.2.0.binpb"), "x")
	must(t, r.checkNotes())
}

func TestSumsAndUsage(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b"), "b")
	write(t, filepath.Join(dir, "a", "a"), "a")
	must(t, writeSums(dir))
	got, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	must(t, err)
	if want := fmt.Sprintf("%x  a/a\n%x  b\n", sha256.Sum256([]byte("a")), sha256.Sum256([]byte("b"))); string(got) != want {
		t.Errorf("sums\n%s", got)
	}
	for _, args := range [][]string{nil, {"all"}, {"all", "-version", "1.2.0", "-to", dir}, {"all", "-version", "v1.2", "-to", dir}, {"all", "-root", "../..", "-version", "v1.2.0-nightly", "-to", filepath.Join(dir, "new")}, {"any", "-version", "v1.2.0", "-to", dir}, {"all", "-root", "../..", "-version", "v1.2.0", "-to", dir}} {
		if err := run(args); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

// Protos are compared with the newest release, not with the last commit.
func TestBreakingComparesWithTheNewestRelease(t *testing.T) {
	path := exec.Command("go", "tool", "-n", "-modfile=build/buf/go.mod", "buf")
	path.Dir, path.Stderr = "../..", os.Stderr
	out, err := path.Output()
	must(t, err)
	buf := strings.TrimSpace(string(out))
	dir := t.TempDir()
	script, err := os.ReadFile("../../scripts/breaking.sh")
	must(t, err)
	write(t, filepath.Join(dir, "scripts", "breaking.sh"), string(script))
	write(t, filepath.Join(dir, "buf.yaml"), "version: v2\nmodules: [{path: proto}]\nbreaking: {use: [FILE]}\n")
	do := func(name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	schema := func(fields string) {
		write(t, filepath.Join(dir, "proto", "m.proto"), "syntax = \"proto3\";\npackage p;\nmessage M {"+fields+"}\n")
	}
	for version, fields := range map[string]string{"0.9.0": "string a = 1; string old = 3;", "0.10.0": "string a = 1; string b = 2;"} {
		schema(fields)
		must(t, os.MkdirAll(filepath.Join(dir, "proto", "releases"), 0o755))
		if out, err := do(buf, "build", "-o", "proto/releases/"+version+".binpb"); err != nil {
			t.Fatal(out)
		}
	}
	schema("string a = 1; string b = 2; string c = 4;")
	if out, err := do("bash", "scripts/breaking.sh", buf); err != nil || !strings.Contains(out, "against proto/releases/0.10.0.binpb") {
		t.Errorf("an added field: %v\n%s", err, out)
	}
	schema("string a = 1;")
	if out, err := do("bash", "scripts/breaking.sh", buf); err == nil || !strings.Contains(out, `"b" on message "M" was deleted`) {
		t.Errorf("a removed field: %v\n%s", err, out)
	}
}
