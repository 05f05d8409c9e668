// Package web contains the built console, a web application that uses the public API with the rights of the person who is signed in.
package web

import (
	"archive/zip"
	"bytes"
	_ "embed" // for the archive
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed console.zip
var archive string

// types are the content types of the files. Package mime reads tables of the machine, which may have other types.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
}

// Console serves the files of the archive. A path below assets/ without a file is refused as not found. Every other path without a file is
// a page of the application and gets index.html.
type Console struct {
	files map[string]*zip.File
}

// New opens the archive.
func New() (*Console, error) {
	r, err := zip.NewReader(strings.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, fmt.Errorf("the console: %w", err)
	}
	c := &Console{files: map[string]*zip.File{}}
	for _, f := range r.File {
		if types[path.Ext(f.Name)] == "" {
			return nil, fmt.Errorf("the console: %s has no content type", f.Name)
		}
		c.files[f.Name] = f
	}
	if c.files["index.html"] == nil {
		return nil, fmt.Errorf("the console: the archive has no index.html")
	}
	return c, nil
}

// ServeHTTP serves GET and HEAD. The names of assets contain a hash of their content, so browsers keep them.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	f, caching := c.files[name], "public, max-age=31536000, immutable"
	if f == nil && strings.HasPrefix(name, "assets/") {
		http.NotFound(w, r)
		return
	}
	if f == nil || name == "index.html" {
		f, caching = c.files["index.html"], "no-cache"
	}
	h, tag := w.Header(), fmt.Sprintf(`W/"%08x"`, f.CRC32) // a weak tag, because the plain and the compressed bytes have the same tag
	h.Set("Content-Type", types[path.Ext(f.Name)])
	h.Set("Cache-Control", caching)
	h.Set("ETag", tag)
	h.Set("Vary", "Accept-Encoding")
	if known := strings.Join(r.Header.Values("If-None-Match"), ","); known == "*" || strings.Contains(known, tag[len("W/"):]) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	c.send(w, r, f)
}

// send sends a file, compressed as in the archive if the client accepts that.
func (c *Console) send(w http.ResponseWriter, r *http.Request, f *zip.File) {
	open, size := f.Open, f.UncompressedSize64
	if f.Method == zip.Deflate && acceptsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		open = func() (io.ReadCloser, error) { return gzipped(f) }
		size = f.CompressedSize64 + gzipFrame
	}
	body, err := open()
	if err != nil {
		http.Error(w, "the console's archive is damaged", http.StatusInternalServerError)
		return
	}
	defer func() { _ = body.Close() }()
	w.Header().Set("Content-Length", strconv.FormatUint(size, 10))
	if r.Method != http.MethodHead {
		_, _ = io.Copy(w, body) // a write fails only when the client is gone
	}
}

// acceptsGzip reads Accept-Encoding (RFC 9110, section 12.5.3): names with an optional weight. The weight 0 refuses the encoding.
func acceptsGzip(r *http.Request) bool {
	for _, coding := range strings.Split(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(strings.ToLower(coding), ";")
		if strings.TrimSpace(name) == "gzip" {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}

const gzipFrame = 10 + 8 // bytes of the header and the trailer of a gzip stream

// gzipped returns a file of the archive as a gzip stream (RFC 1952): the same compressed bytes with another header and trailer.
func gzipped(f *zip.File) (io.ReadCloser, error) {
	raw, err := f.OpenRaw()
	if err != nil {
		return nil, err
	}
	header := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255}
	trailer := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, f.CRC32), uint32(f.UncompressedSize64))
	return io.NopCloser(io.MultiReader(bytes.NewReader(header), raw, bytes.NewReader(trailer))), nil
}
