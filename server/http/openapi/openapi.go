// Package openapi has the OpenAPI document of the HTTP endpoint. "make generate" makes it from the protos.
package openapi

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"net/http"
	"strings"
)

//go:embed openapi.json.gz
var compressed []byte

// Serve sends the document.
func Serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		_, _ = w.Write(compressed) // Ignore the error: a write fails only when the client is gone.
		return
	}
	document, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		panic(err) // This cannot happen: the tests check that the document is valid.
	}
	_, _ = io.Copy(w, document) //nolint:gosec // the daemon contains the document
}
