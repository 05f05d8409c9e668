package httpserver

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base32"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/service"
)

// cookieName is the name of the cookie of a session. A browser accepts a cookie with the prefix __Host- only if it is for one host and all
// paths. The host must use TLS or have a name below localhost.
const cookieName = "__Host-toold"

// ConsoleHost returns the host name that browsers use for a daemon with plain HTTP on this machine. Browsers send the cookies of a host to
// all of its ports. The name is therefore derived from a secret, so that no other local server can have the same name.
func ConsoleHost(secret string) string {
	sum := sha256.Sum256([]byte("toold console host\x00" + secret))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10])) + ".localhost"
}

//go:embed login
var loginFiles embed.FS

// registerLogin adds the pages that turn a login link into a session.
func (s *Server) registerLogin(mux *http.ServeMux) {
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		http.ServeFileFS(w, r, loginFiles, "login/login.html")
	})
	mux.Handle("GET /login/", http.FileServerFS(loginFiles))
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
}

// login uses up a login link and sets the cookie of a session.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Link string `json:"link"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&in); err != nil {
		writeError(w, r, service.Refused(call.InvalidField("link", "the body is not {\"link\": \"…\"}")))
		return
	}
	if refusal := s.noSession(r); refusal != nil {
		writeError(w, r, service.Refused(refusal))
		return
	}
	session, expires, err := s.cfg.Service.SignIn(r.Context(), in.Link)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	setCookie(w, session, int(time.Until(expires).Seconds()))
	w.WriteHeader(http.StatusNoContent)
}

// logout ends the session of the cookie.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	if session := access.CredentialFrom(r.Context()).Session; session != "" {
		if err := s.cfg.Service.SignOut(r.Context(), session); err != nil {
			s.fail(w, r, err)
			return
		}
	}
	setCookie(w, "", -1)
	w.WriteHeader(http.StatusNoContent)
}

func setCookie(w http.ResponseWriter, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: value, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode})
}

// noSession returns the refusal of a request that may not use a cookie, or nil. A cookie is accepted only in requests of the server's own
// pages, and only under a host name that no other server uses.
func (s *Server) noSession(r *http.Request) *call.Refusal {
	name := hostname(r.Host)
	if r.TLS == nil && name != s.cfg.Console && !slices.Contains(s.cfg.Hosts, name) {
		return call.Refuse(call.PermissionDenied, "SESSION_NOT_ALLOWED", "sessions are not for the host %q; open the link that `toold login` prints", r.Host)
	}
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "same-origin" && (site != "none" || r.Method != http.MethodGet) {
		return call.Refuse(call.PermissionDenied, "SESSION_NOT_ALLOWED", "the session of a browser is only for pages of this server; programs send a token")
	}
	return nil
}

// refuseMethod returns the refusal of a request for an API method without a valid credential. It is called before the handlers of Connect,
// because they would read a message of up to 4 MiB first.
func (s *Server) refuseMethod(ctx context.Context, name string, c access.Credential) error {
	if !strings.HasPrefix(name, "/toold.v1.") {
		return nil
	}
	return s.cfg.Service.Serve(ctx, c, name, nil, func(context.Context) error { return nil })
}

// withCredential stores the credential of each request in its context.
func (s *Server) withCredential(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		c := &ctx.Value(exchangeKey{}).(*exchange).credential
		c.Authorization, c.From = r.Header["Authorization"], r.RemoteAddr
		if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
			c.Certificate = r.TLS.VerifiedChains[0][0]
		}
		if cookie, err := r.Cookie(cookieName); err == nil && len(c.Authorization) == 0 {
			if refusal := s.noSession(r); refusal != nil {
				writeError(w, r, service.Refused(refusal))
				return
			}
			c.Session = cookie.Value
		}
		if _, err := s.cfg.Service.Auth().Identify(ctx, *c); err == nil {
			s.guests.admit(ctx)
		} else if err := s.refuseMethod(ctx, r.URL.Path, *c); err != nil {
			_ = errorWriter.Write(w, r, toConnect(err)) // Ignore the error: a write fails only when the client is gone.
			return
		}
		next.ServeHTTP(w, r)
	})
}
