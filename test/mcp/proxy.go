package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// serveOpen serves the daemon's endpoint at another address and adds the client's token, because the conformance suite cannot send a token.
// It returns the address. If Host or Origin contains the address of the proxy, the proxy replaces it by the address of the daemon. It does
// not change other values.
func serveOpen(ctx context.Context, d *daemon) (string, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	self := lis.Addr().String()
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: d.http})
		r.Out.Host = r.In.Host
		if r.In.Host == self {
			r.Out.Host = d.http
		}
		if r.In.Header.Get("Origin") == "http://"+self {
			r.Out.Header.Set("Origin", "http://"+d.http)
		}
		r.Out.Header.Set("Authorization", "Bearer "+token(client))
	}}
	whole := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // Read the whole body first: a body that is still open when the response begins would break the connection to the daemon.
		if err != nil {
			return // the client is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
	server := &http.Server{Handler: whole, ReadHeaderTimeout: time.Minute}
	go server.Serve(lis) //nolint:errcheck // It ends when the context does.
	context.AfterFunc(ctx, func() { server.Close() })
	return "http://" + self + "/mcp", nil
}
