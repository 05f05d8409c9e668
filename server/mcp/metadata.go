package mcpserver

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
)

// metadataPath is the path of the metadata of a protected resource (RFC 9728). The path of the resource may follow it.
const metadataPath = "/.well-known/oauth-protected-resource"

// mcpPath is the path of the endpoint.
const mcpPath = "/mcp"

// resourceMetadata tells a client where to get a token.
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Issuers  []string `json:"authorization_servers"`
	Methods  []string `json:"bearer_methods_supported"`
	Name     string   `json:"resource_name"`
}

// originOf returns the scheme and host under which the client reaches the endpoint. Without TLS, toold listens on loopback only. A request
// for another host therefore came through a proxy, and the client reached that proxy over TLS.
func originOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	if r.TLS == nil && (host == "localhost" || strings.HasSuffix(host, ".localhost") || ip.IsLoopback()) {
		return "http://" + r.Host
	}
	return "https://" + r.Host
}

// serveMetadata answers a request for the metadata. It needs no credential.
func (s *Server) serveMetadata(w http.ResponseWriter, r *http.Request) {
	issuers := s.issuers()
	if rest := strings.TrimPrefix(r.URL.Path, metadataPath); len(issuers) == 0 || rest != "" && rest != mcpPath {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(resourceMetadata{ // Ignore the error: a write fails only when the client is gone.
		Resource: originOf(r) + mcpPath, Issuers: issuers, Methods: []string{"header"}, Name: "toold",
	})
}

// challenge returns the value of WWW-Authenticate for a client without a valid credential.
func (s *Server) challenge(r *http.Request) string {
	if len(s.issuers()) == 0 {
		return "Bearer"
	}
	return `Bearer resource_metadata="` + originOf(r) + metadataPath + mcpPath + `"`
}

// issuers returns the URLs of the authorization servers.
func (s *Server) issuers() []string {
	if s.cfg.Issuers == nil {
		return nil
	}
	return s.cfg.Issuers()
}
