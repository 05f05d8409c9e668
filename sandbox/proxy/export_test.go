package proxy

import (
	"bufio"
	"bytes"
	"net/http"
)

// ReadForTest parses the head of a request and returns what the proxy would send to its host. sent is empty for CONNECT.
func ReadForTest(b []byte) (host string, port uint16, sent string, err error) {
	r, err := readRequest(bufio.NewReaderSize(bytes.NewReader(b), maxLine))
	if err != nil {
		return "", 0, "", err
	}
	if r.method != http.MethodConnect {
		sent = r.head(nil)
	}
	return r.to.host, r.to.port, sent, nil
}
