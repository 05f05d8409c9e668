package main

import (
	"bytes"
	"cmp"
	"crypto/md5" //nolint:gosec // dpkg --verify uses it; it protects nothing
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// unit is the path of the systemd unit in an archive. An archive is unpacked to /usr/local, where systemd also looks for units.
const unit = "lib/systemd/system/toold.service"

// debianVersion returns the version as Debian writes it. Debian takes 0.1.0-rc.1 as newer than 0.1.0, but 0.1.0~rc.1 as older.
func debianVersion(version string) string { return strings.Replace(version, "-", "~", 1) }

func (r *release) deb(arch string, tree []entry) error {
	data, err := r.debianTree(tree)
	if err != nil {
		return err
	}
	control, err := r.controlFiles(arch, data)
	if err != nil {
		return err
	}
	version := debianVersion(r.version)
	return r.create(fmt.Sprintf("toold_%s_%s.deb", version, arch), func(w io.Writer) error { return writeDeb(w, control, data, r.made) })
}

// writeDeb writes a Debian package, which is an ar archive of three files.
func writeDeb(w io.Writer, control, data []entry, made time.Time) error {
	var packed [2]bytes.Buffer
	for i, tree := range [][]entry{control, data} {
		if err := writeTarGz(&packed[i], tree, made); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(w, "!<arch>\n"); err != nil {
		return err
	}
	return cmp.Or(
		writeMember(w, "debian-binary", made.Unix(), []byte("2.0\n")),
		writeMember(w, "control.tar.gz", made.Unix(), packed[0].Bytes()),
		writeMember(w, "data.tar.gz", made.Unix(), packed[1].Bytes()),
	)
}

// writeMember writes one file of an ar archive, and pads it to an even size.
func writeMember(w io.Writer, name string, made int64, data []byte) error {
	if _, err := fmt.Fprintf(w, "%-16s%-12d%-6d%-6d%-8o%-10d`\n%s", name, made, 0, 0, 0o100644, len(data), data); err != nil {
		return err
	}
	if len(data)%2 == 0 {
		return nil
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// debianTree moves the tree below /usr, and adds the configuration.
func (r *release) debianTree(tree []entry) ([]entry, error) {
	var all []entry
	for _, e := range tree {
		switch e.name {
		case unit:
			text, err := e.content()
			if err != nil {
				return nil, err
			}
			if bytes.Count(text, []byte("/usr/local/bin/toold ")) != 1 {
				return nil, fmt.Errorf("%s must name /usr/local/bin/toold once", e.path)
			}
			e = entry{name: e.name, data: bytes.ReplaceAll(text, []byte("/usr/local/bin/toold "), []byte("/usr/bin/toold "))}
		case "share/zsh/site-functions/_toold":
			e.name = "share/zsh/vendor-completions/_toold"
		}
		e.name = "usr/" + e.name
		all = append(all, e)
	}
	return append(all, entry{name: "etc/toold/toold.yaml", path: filepath.Join(r.root, "deploy", "toold.yaml")}), nil
}

// controlFiles returns the files that tell dpkg what to do with the package.
func (r *release) controlFiles(arch string, data []entry) ([]entry, error) {
	dir := filepath.Join(r.root, "deploy", "debian")
	control, err := os.ReadFile(filepath.Join(dir, "control"))
	if err != nil {
		return nil, err
	}
	var sums strings.Builder
	size := 0
	for _, e := range data {
		content, err := e.content()
		if err != nil {
			return nil, err
		}
		size += len(content)
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(content), e.name) //nolint:gosec // see above
	}
	filled := strings.NewReplacer("@VERSION@", debianVersion(r.version), "@ARCH@", arch, "@KIB@", fmt.Sprint((size+1023)/1024)).Replace(string(control))
	all := []entry{{name: "control", data: []byte(filled)}, {name: "md5sums", data: []byte(sums.String())}, {name: "conffiles", data: []byte("/etc/toold/toold.yaml\n")}}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		all = append(all, entry{name: script, path: filepath.Join(dir, script), mode: 0o755})
	}
	return all, nil
}
