package httpserver

import (
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	connectcors "connectrpc.com/cors"
	"github.com/rs/cors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/server/service"
)

// protect refuses requests that a browser sends for a page of another site. Programs send neither Origin nor Sec-Fetch-Site.
func (s *Server) protect(next http.Handler) http.Handler {
	if len(s.cfg.Origins) > 0 {
		next = cors.New(cors.Options{
			AllowedOrigins: s.cfg.Origins, AllowedMethods: append(connectcors.AllowedMethods(), http.MethodDelete),
			AllowedHeaders: append(connectcors.AllowedHeaders(), "Authorization", "Last-Event-Id", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"),
			ExposedHeaders: append(connectcors.ExposedHeaders(), "Mcp-Session-Id", "Www-Authenticate"),
			MaxAge:         7200, // seconds; no browser caches the answer for longer
		}).Handler(next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isData(r) {
			maps.Copy(w.Header(), policies)
		}
		if r.TLS != nil {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		if refusal := s.foreign(r); refusal != nil {
			writeError(w, r, service.Refused(refusal))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// policy allows a page only the files and the API of its own origin, and images that its own script made.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// policies are the headers of each response that a browser may show as a document, or load as a script, style or image. All responses share
// these values. A handler may therefore replace a value in its response, but must not change the slice.
var policies = http.Header{
	"Content-Security-Policy":      {policy},
	"X-Content-Type-Options":       {"nosniff"},
	"Referrer-Policy":              {"no-referrer"},
	"Cross-Origin-Opener-Policy":   {"same-origin"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
}

// isData reports whether a browser passes the response only to a script. Only scripts can send a body of type JSON; links, forms and elements
// of a page cannot.
func isData(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Content-Type"), "application/json")
}

// foreign returns the refusal of a request whose host or origin is not this server's, or nil.
func (s *Server) foreign(r *http.Request) *call.Refusal {
	if !s.ownHost(r) {
		return call.Refuse(call.PermissionDenied, "HOST_NOT_ALLOWED", "the host %q is not a name of this server; add it to http.hosts if it is", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(r, origin) && !slices.Contains(s.cfg.Origins, origin) {
		return call.Refuse(call.PermissionDenied, "ORIGIN_NOT_ALLOWED", "pages of %q may not send requests to this server; add it to http.origins if they may", origin)
	}
	site, navigates := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Method == http.MethodGet
	if r.Header.Get("Origin") == "" && (site == "cross-site" || site == "same-site") && !navigates {
		return call.Refuse(call.PermissionDenied, "ORIGIN_NOT_ALLOWED", "pages of another origin may not send requests to this server")
	}
	return nil
}

// ownHost reports whether the Host header names this server. An attacker can make the attacker's own host name resolve to the address of
// this server (DNS rebinding). Then a page of the attacker can reach the server under that name. This attack does not work with an IP
// address, a name below localhost, or a name for which the attacker would need a certificate.
func (s *Server) ownHost(r *http.Request) bool {
	name := hostname(r.Host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || slices.Contains(s.cfg.Hosts, name) ||
		r.TLS != nil && name == strings.ToLower(r.TLS.ServerName)
}

// hostname returns the name of a Host header in lower case, without port and brackets.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// sameOrigin reports whether an Origin header names this server under the name in the request. The schemes are compared only when the
// server itself uses TLS, because a proxy may have ended TLS before the server.
func sameOrigin(r *http.Request, origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, r.Host) && (u.Scheme == "https" || u.Scheme == "http" && r.TLS == nil)
}
