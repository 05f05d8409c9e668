package httpserver

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"time"

	"github.com/toold-dev/toold/server/service"
)

// NewStandby returns the HTTP server of a daemon that waits for its store, which another daemon owns. It answers /healthz with 200, because
// the process must not be restarted, and all other requests with 503. secure configures TLS; nil means plain HTTP.
func NewStandby(secure *tls.Config) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /readyz", notReady)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { writeError(w, r, service.StandbyError()) })
	g := newGuests()
	return &http.Server{
		Handler: mux, TLSConfig: secured(secure), MaxHeaderBytes: maxHeader, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ConnContext: g.arrived, ConnState: g.changed, ErrorLog: log.New(io.Discard, "", 0),
	}
}
