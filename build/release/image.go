package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"time"
)

const uid = 65532

// A descriptor names a blob of an OCI layout.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// An index lists manifests, for an image of several architectures or for a whole layout.
type index struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Manifests     []descriptor      `json:"manifests"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations"`
}

type imageConfig struct {
	Created time.Time `json:"created"`
	platform
	Config  containerConfig `json:"config"`
	RootFS  rootFS          `json:"rootfs"`
	History []history       `json:"history"`
}

type containerConfig struct {
	User       string              `json:"User"`
	Env        []string            `json:"Env"`
	Entrypoint []string            `json:"Entrypoint"`
	Cmd        []string            `json:"Cmd"`
	Volumes    map[string]struct{} `json:"Volumes"`
	WorkingDir string              `json:"WorkingDir"`
	Labels     map[string]string   `json:"Labels"`
	StopSignal string              `json:"StopSignal"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type history struct {
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by"`
}

// A layout collects the blobs of an OCI layout.
type layout struct {
	tree  []entry
	known map[string]bool
}

func (l *layout) add(mediaType string, blob []byte) descriptor {
	digest := fmt.Sprintf("%x", sha256.Sum256(blob))
	if !l.known[digest] {
		l.known[digest] = true
		l.tree = append(l.tree, entry{name: "blobs/sha256/" + digest, data: blob})
	}
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(blob)}
}

func (l *layout) addJSON(mediaType string, v any) (descriptor, error) {
	b, err := json.Marshal(v)
	return l.add(mediaType, b), err
}

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// image writes the OCI image for all architectures as the archive of a layout.
func (r *release) image(work string) error {
	l := &layout{known: map[string]bool{}}
	var manifests []descriptor
	for _, arch := range architectures {
		m, err := r.imageOf(l, work, arch)
		if err != nil {
			return err
		}
		m.Platform = &platform{arch, "linux"}
		manifests = append(manifests, m)
	}
	all, err := l.addJSON(typeIndex, index{2, typeIndex, manifests, r.annotations()})
	if err != nil {
		return err
	}
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version}
	top, err := json.Marshal(index{2, typeIndex, []descriptor{all}, nil})
	if err != nil {
		return err
	}
	l.tree = append(l.tree, entry{name: "oci-layout", data: []byte(`{"imageLayoutVersion":"1.0.0"}`)}, entry{name: "index.json", data: top})
	return r.create(fmt.Sprintf("toold_%s_oci.tar", r.version), func(w io.Writer) error { return writeTar(w, l.tree, r.made) })
}

// imageOf adds the image of an architecture: a layer of Debian and a layer of toold.
func (r *release) imageOf(l *layout, work, arch string) (d descriptor, err error) {
	packages, err := readLock(filepath.Join(r.root, lockFile), arch)
	if err != nil {
		return d, err
	}
	files, err := fetchPackages(packages, work)
	if err != nil {
		return d, err
	}
	debian, err := debianRoot(packages, files)
	if err != nil {
		return d, err
	}
	own := r.ownLayer(work, arch, debian)
	config := imageConfig{Created: r.made, platform: platform{arch, "linux"}, Config: r.containerConfig(), RootFS: rootFS{Type: "layers"}}
	m := manifest{SchemaVersion: 2, MediaType: typeManifest, Annotations: r.annotations()}
	for _, layer := range []struct {
		tree []entry
		what string
	}{{debian, "the Debian packages of " + lockFile}, {own, "toold " + r.version}} {
		var plain bytes.Buffer
		if err := writeTar(&plain, layer.tree, r.made); err != nil {
			return d, err
		}
		packed, err := gzipped(plain.Bytes())
		if err != nil {
			return d, err
		}
		m.Layers = append(m.Layers, l.add(typeLayer, packed))
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, fmt.Sprintf("sha256:%x", sha256.Sum256(plain.Bytes())))
		config.History = append(config.History, history{r.made, layer.what})
	}
	if m.Config, err = l.addJSON(typeConfig, config); err != nil {
		return d, err
	}
	if err := r.writeImageSBOM(arch, packages); err != nil {
		return d, err
	}
	return l.addJSON(typeManifest, m)
}

// ownLayer returns the programs, their user and their directories.
func (r *release) ownLayer(work, arch string, debian []entry) []entry {
	tree := []entry{
		{name: "var/lib/toold", dir: true, mode: 0o700, uid: uid, gid: uid}, {name: "workspace", dir: true, uid: uid, gid: uid},
	}
	for _, e := range binaries(work, arch) {
		e.name = "usr/local/" + e.name
		tree = append(tree, e)
	}
	for _, e := range debian {
		switch e.name {
		case "etc/passwd":
			e.data = fmt.Appendf(bytes.Clone(e.data), "toold:x:%d:%d::/workspace:/usr/sbin/nologin\n", uid, uid)
			tree = append(tree, e)
		case "etc/group":
			e.data = fmt.Appendf(bytes.Clone(e.data), "toold:x:%d:\n", uid)
			tree = append(tree, e)
		}
	}
	return tree
}

func (r *release) containerConfig() containerConfig {
	return containerConfig{
		User: fmt.Sprintf("%d:%d", uid, uid), Entrypoint: []string{"toold"}, Cmd: []string{"serve"}, WorkingDir: "/workspace", StopSignal: "SIGTERM",
		Env:     []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TOOLD_DATA=/var/lib/toold", "TOOLD_WORKSPACE=/workspace"},
		Volumes: map[string]struct{}{"/var/lib/toold": {}, "/workspace": {}}, Labels: r.annotations(),
	}
}

func (r *release) annotations() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title": "toold", "org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit,
		"org.opencontainers.image.created": r.made.Format(time.RFC3339), "org.opencontainers.image.source": "https://github.com/toold-dev/toold",
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}
