package web

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// body reads a page until its unpacked size reaches MaxBytes, or its packed size a little more than MaxBytes. cut reports that the page is
// longer.
func (f *fetch) body(resp *http.Response) (b []byte, cut bool, err error) {
	packed := &io.LimitedReader{R: resp.Body, N: f.cfg.MaxBytes + 1<<16} // The limit also ends a packed body that never unpacks to anything.
	var in io.Reader = packed
	switch coding := strings.ToLower(resp.Header.Get("Content-Encoding")); coding {
	case "", "identity":
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(packed)
		if err != nil {
			return nil, false, fmt.Errorf("the page is declared as gzip but is not valid gzip: %w", err)
		}
		in = z
	default:
		return nil, false, fmt.Errorf("the page has the content encoding %.20q, which was not requested", coding)
	}
	var out bytes.Buffer
	_, err = io.Copy(&out, io.LimitReader(in, f.cfg.MaxBytes+1))
	b = out.Bytes()
	if int64(len(b)) > f.cfg.MaxBytes {
		return b[:f.cfg.MaxBytes], true, nil
	}
	if packed.N == 0 {
		return b, true, nil
	}
	return b, false, err
}

// mediaType returns the media type in the server's header. When the header has none, it derives the type from the body.
func mediaType(header string, body []byte) string {
	kind, _, err := mime.ParseMediaType(header)
	if err != nil || kind == "" {
		kind, _, _ = mime.ParseMediaType(http.DetectContentType(body))
	}
	return kind
}

func isHTML(kind string) bool { return kind == "text/html" || kind == "application/xhtml+xml" }

// isText reports whether the body is readable text.
func isText(kind string, body []byte) bool {
	named := strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") ||
		map[string]bool{"application/json": true, "application/xml": true, "application/javascript": true, "application/yaml": true, "application/x-ndjson": true}[kind]
	return named && !bytes.ContainsRune(body[:min(len(body), 8<<10)], 0)
}

// decode returns a text as UTF-8. A text that is declared as UTF-8, or that is valid UTF-8, is read as UTF-8. Any other text is read as
// Windows-1252, the default of browsers (WHATWG Encoding).
func decode(body []byte, contentType string) string {
	_, params, _ := mime.ParseMediaType(contentType)
	switch name := strings.ToLower(params["charset"]); {
	case name == "utf-8" || name == "utf8" || utf8.Valid(body):
		return strings.ToValidUTF8(string(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))), "\uFFFD")
	default:
		text, err := charmap.Windows1252.NewDecoder().Bytes(body)
		if err != nil {
			return strings.ToValidUTF8(string(body), "\uFFFD")
		}
		return string(text)
	}
}

// reason removes the method and the URL from an error of the HTTP client, because the model knows them already.
func reason(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
