package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// lockFile names the Debian packages of the image, with their versions and checksums.
const lockFile = "build/release/image.lock"

// wanted are the packages that the image must contain. apt adds their dependencies.
var wanted = []string{
	"base-files", "base-passwd", "bash", "ca-certificates", "coreutils", "dash", "diffutils", "findutils", "git", "grep", "gzip", "libc-bin", "mawk",
	"patch", "procps", "sed", "tar",
}

// A debianPackage is a line of the lock file.
type debianPackage struct{ arch, name, version, sha256 string }

// apt runs apt-get with its own state, as if nothing were installed. It uses the package sources and the keys of this machine.
type apt struct{ dir, arch string }

func newApt(dir, arch string) (*apt, error) {
	for _, sub := range []string{"lists/partial", "archives/partial", "debs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "status"), nil, 0o644); err != nil {
		return nil, err
	}
	a := &apt{dir, arch}
	_, err := a.run("update", "-qq", "--error-on=any")
	return a, err
}

func (a *apt) run(args ...string) (string, error) {
	options := []string{
		"Dir::State=" + a.dir, "Dir::State::lists=" + filepath.Join(a.dir, "lists"), "Dir::State::status=" + filepath.Join(a.dir, "status"), "Dir::Cache=" + a.dir,
		"APT::Architecture=" + a.arch, "APT::Architectures=" + a.arch, "APT::Install-Recommends=false", "APT::Sandbox::User=", "Acquire::Languages=none",
	}
	var all []string
	for _, o := range options {
		all = append(all, "-o", o)
	}
	cmd := exec.Command("apt-get", append(all, args...)...)
	cmd.Dir, cmd.Stderr = filepath.Join(a.dir, "debs"), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("apt-get %s: %w", args[0], err)
	}
	return string(out), nil
}

// download fetches packages, which apt verifies with the keys of the archive, and sets their checksums. It returns their paths.
func (a *apt) download(packages []debianPackage) (files []string, err error) {
	args := []string{"download", "-qq"}
	for _, p := range packages {
		args = append(args, p.name+"="+p.version)
	}
	if _, err := a.run(args...); err != nil {
		return nil, err
	}
	for i, p := range packages {
		found, err := filepath.Glob(filepath.Join(a.dir, "debs", p.name+"_*.deb"))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("apt-get download %s: found %v, want one file", p.name, found)
		}
		if packages[i].sha256, err = sumOf(found[0]); err != nil {
			return nil, err
		}
		files = append(files, found[0])
	}
	return files, nil
}

// installed matches a line of apt's simulation.
var installed = regexp.MustCompile(`(?m)^Inst (\S+) \((\S+) `)

// writeLock resolves the packages of the image for all architectures and writes their checksums.
func writeLock(to string) error {
	var lines bytes.Buffer
	fmt.Fprintf(&lines, "# Debian packages of the image. \"make image-lock\" writes this file.\n")
	for _, arch := range architectures {
		if err := lockArch(&lines, arch); err != nil {
			return err
		}
	}
	return os.WriteFile(to, lines.Bytes(), 0o644)
}

func lockArch(lines io.Writer, arch string) error {
	dir, err := os.MkdirTemp("", "toold-lock-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	a, err := newApt(dir, arch)
	if err != nil {
		return err
	}
	plan, err := a.run(append([]string{"install", "--simulate"}, wanted...)...)
	if err != nil {
		return err
	}
	var packages []debianPackage
	for _, found := range installed.FindAllStringSubmatch(plan, -1) {
		packages = append(packages, debianPackage{arch: arch, name: found[1], version: found[2]})
	}
	slices.SortFunc(packages, func(a, b debianPackage) int { return strings.Compare(a.name, b.name) })
	if _, err := a.download(packages); err != nil {
		return err
	}
	for _, p := range packages {
		fmt.Fprintln(lines, p.arch, p.name, p.version, p.sha256)
	}
	return nil
}

func readLock(from, arch string) (all []debianPackage, err error) {
	text, err := os.ReadFile(from)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if strings.HasPrefix(line, "#") || len(f) > 0 && f[0] != arch {
			continue
		}
		if len(f) != 4 {
			return nil, fmt.Errorf("%s: %q: want architecture, name, version and SHA-256", from, line)
		}
		all = append(all, debianPackage{f[0], f[1], f[2], f[3]})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no packages for %s", from, arch)
	}
	return all, nil
}

// fetchPackages returns the files of the packages, from the cache or from the archive.
func fetchPackages(packages []debianPackage, work string) (files []string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	cache = filepath.Join(cache, "toold-release")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	var missing []debianPackage
	for _, p := range packages {
		at := filepath.Join(cache, p.sha256+".deb")
		if sum, err := sumOf(at); err != nil || sum != p.sha256 {
			missing = append(missing, p)
		}
		files = append(files, at)
	}
	if len(missing) == 0 {
		return files, nil
	}
	return files, fetchMissing(missing, cache, filepath.Join(work, "apt-"+missing[0].arch))
}

func fetchMissing(missing []debianPackage, cache, work string) error {
	a, err := newApt(work, missing[0].arch)
	if err != nil {
		return err
	}
	fetched := slices.Clone(missing)
	from, err := a.download(fetched)
	if err != nil {
		return fmt.Errorf("%w\nif the archive has newer versions: make image-lock", err)
	}
	for i, p := range missing {
		if fetched[i].sha256 != p.sha256 {
			return fmt.Errorf("%s %s has the checksum %s, %s says %s", p.name, p.version, fetched[i].sha256, lockFile, p.sha256)
		}
		data, err := os.ReadFile(from[i])
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(cache, p.sha256+".deb"), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// debianRoot returns the files of packages as one tree. No script of a package runs; finish does what the scripts would do.
func debianRoot(packages []debianPackage, files []string) ([]entry, error) {
	root := map[string]entry{}
	for _, link := range []string{"bin", "lib", "lib32", "lib64", "libx32", "sbin"} {
		root[link] = entry{name: link, link: "usr/" + link}
		root["usr/"+link] = entry{name: "usr/" + link, dir: true}
	}
	for i, p := range packages {
		if err := unpack(root, files[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		control, err := exec.Command("dpkg-deb", "--field", files[i]).Output()
		if err != nil {
			return nil, fmt.Errorf("dpkg-deb %s: %w", p.name, err)
		}
		name := "var/lib/dpkg/status.d/" + p.name // where scanners look for the packages of an image without dpkg
		root[name] = entry{name: name, data: control}
	}
	if err := finish(root); err != nil {
		return nil, err
	}
	tree := make([]entry, 0, len(root))
	for _, e := range root {
		tree = append(tree, e)
	}
	return tree, nil
}

// left matches files that the image does not need.
var left = regexp.MustCompile(`^usr/share/(man|info|locale|lintian|bug)/|^usr/share/doc/[^/]+/[^/]*$|^usr/share/doc/[^/]+/.+/`)

// unpack adds the files of a package.
func unpack(root map[string]entry, deb string) error {
	cmd := exec.Command("dpkg-deb", "--fsys-tarfile", deb)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	for r := tar.NewReader(bytes.NewReader(out)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		e := entry{name: merged(h.Name), mode: h.Mode, uid: h.Uid, gid: h.Gid}
		if e.name == "." || left.MatchString(e.name) && path.Base(e.name) != "copyright" {
			continue
		}
		switch known, ok := root[e.name]; h.Typeflag {
		case tar.TypeDir:
			if e.dir = true; ok {
				e = known // the first package decides about the mode
			}
		case tar.TypeSymlink:
			e.link = h.Linkname
		case tar.TypeLink:
			e.data = root[merged(h.Linkname)].data
		case tar.TypeReg:
			if e.data, err = io.ReadAll(r); err != nil {
				return err
			}
			if ok && !known.dir && !bytes.Equal(known.data, e.data) {
				return fmt.Errorf("%s is also in another package", e.name)
			}
		default:
			return fmt.Errorf("%s has the type %q", h.Name, h.Typeflag)
		}
		root[e.name] = e
	}
}

// merged returns the name of a file in a root where /bin, /lib and /sbin are links into /usr.
func merged(name string) string {
	name = path.Clean(strings.TrimPrefix(name, "/"))
	first, _, _ := strings.Cut(name, "/")
	if first != "" && slices.Contains([]string{"bin", "lib", "lib32", "lib64", "libx32", "sbin"}, first) {
		return "usr/" + name
	}
	return name
}

// finish does what the scripts of the packages would do: it creates the accounts, nsswitch.conf, the bundle of certificates, the names of
// awk and sh, and /tmp.
func finish(root map[string]entry) error {
	var bundle bytes.Buffer
	var certificates []string
	for name := range root {
		if strings.HasPrefix(name, "usr/share/ca-certificates/mozilla/") && strings.HasSuffix(name, ".crt") {
			certificates = append(certificates, name)
		}
	}
	slices.Sort(certificates)
	for _, name := range certificates {
		fmt.Fprintf(&bundle, "%s\n", bytes.TrimSpace(root[name].data))
	}
	for name, from := range map[string]string{ //nolint:gosec // names of files, not passwords
		"etc/passwd": "usr/share/base-passwd/passwd.master", "etc/group": "usr/share/base-passwd/group.master", "etc/nsswitch.conf": "usr/share/libc-bin/nsswitch.conf",
	} {
		if len(root[from].data) == 0 {
			return fmt.Errorf("%s is missing", from)
		}
		root[name] = entry{name: name, data: root[from].data}
	}
	if bundle.Len() == 0 {
		return errors.New("the certificates are missing")
	}
	add := func(e entry) {
		if _, ok := root[e.name]; !ok {
			root[e.name] = e
		}
	}
	add(entry{name: "etc/ssl/certs/ca-certificates.crt", data: bundle.Bytes()})
	add(entry{name: "usr/bin/awk", link: "mawk"})
	add(entry{name: "usr/bin/sh", link: "dash"})
	add(entry{name: "tmp", dir: true, mode: 0o1777})
	return nil
}
