// Command pack writes the files of dist to an archive: console.zip, or the one that -o names. With -check it compares the archive with dist
// instead. The files must be the same; the compressed bytes may differ between versions of Go.
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

func main() {
	archive := flag.String("o", "console.zip", "the archive")
	checks := flag.Bool("check", false, "compare only")
	flag.Parse()
	run := write
	if *checks {
		run = check
	}
	if err := run(os.DirFS("dist"), *archive); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// write writes the archive. The same files give the same bytes. It does not touch an archive that already has these files.
func write(dist fs.FS, archive string) error {
	if check(dist, archive) == nil {
		return nil
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) { return flate.NewWriter(to, flate.BestCompression) })
	err := each(dist, func(name string, data []byte) error {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write(data)
		}
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return err
	}
	return os.WriteFile(archive, out.Bytes(), 0o644)
}

// check returns an error when the archive does not have exactly the files of dist.
func check(dist fs.FS, archive string) error {
	packed, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer func() { _ = packed.Close() }()
	count := 0
	err = each(dist, func(name string, data []byte) error {
		count++
		has, err := fs.ReadFile(packed, name)
		if err != nil || !bytes.Equal(has, data) {
			return fmt.Errorf("%s is not built from the sources: %s differs; run web/build.sh and commit the archive", archive, name)
		}
		return nil
	})
	if err == nil && count != len(packed.File) {
		err = fmt.Errorf("%s has %d files, and the sources give %d; run web/build.sh and commit the archive", archive, len(packed.File), count)
	}
	return err
}

// each passes the files to use, in the order of their names. It skips hidden files.
func each(dist fs.FS, use func(name string, data []byte) error) error {
	return fs.WalkDir(dist, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		data, err := fs.ReadFile(dist, name)
		if err != nil {
			return err
		}
		return use(name, data)
	})
}
