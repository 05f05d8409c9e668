package httpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// slowServer serves handler with short limits. Its client uses HTTP/2 if two is set.
func slowServer(t *testing.T, two bool, handler http.HandlerFunc) (*httptest.Server, *http.Client) {
	t.Helper()
	s := &Server{cfg: Config{Stall: 200 * time.Millisecond}}
	at := httptest.NewUnstartedServer(nil)
	at.Config = newHTTP(s.endSlow(handler))
	at.Config.ReadTimeout = min(at.Config.ReadTimeout, 200*time.Millisecond) // Zero means no limit. It stays zero, so that the test fails.
	at.Start()
	t.Cleanup(at.Close)
	client := at.Client()
	if two {
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		client = &http.Client{Transport: &http.Transport{Protocols: protocols}}
		t.Cleanup(client.CloseIdleConnections)
	}
	return at, client
}

// TestT119SlowClients (T119) checks that a handler does not wait long for a slow client. One client does not send its body, and one does
// not read its response. Each client gets the beginning of a response, or the end of its connection.
func TestT119SlowClients(t *testing.T) {
	for name, two := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{}, 1)
			at, client := slowServer(t, two, func(w http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				for part := make([]byte, 1<<20); err == nil; {
					_, err = w.Write(part)
				}
				ended <- struct{}{}
			})
			pending := func() io.Reader {
				body, sender := io.Pipe()
				t.Cleanup(func() { sender.Close() })
				return body
			}
			for what, body := range map[string]io.Reader{"a body that does not come": pending(), "a body in chunks that does not come": pending(), "a response that nobody reads": http.NoBody} {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.URL, body)
				if err != nil {
					t.Fatal(err)
				}
				if what == "a body that does not come" {
					req.ContentLength = 10
				}
				answered := make(chan struct{})
				go func() {
					resp, err := client.Do(req)
					close(answered)
					if err == nil {
						<-ctx.Done() // Do not read the response.
						resp.Body.Close()
					}
				}()
				select {
				case <-ended:
				case <-time.After(10 * time.Second):
					t.Errorf("%s: the handler still waits", what)
				}
				select {
				case <-answered:
				case <-time.After(5 * time.Second):
					t.Errorf("%s: the client gets neither a response nor the end of the connection", what)
				}
				cancel()
			}
		})
	}
}

// TestPatientHandlers checks that the limits apply to clients only. A handler may take longer, between a request and its response or
// between two writes.
func TestPatientHandlers(t *testing.T) {
	for name, two := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, client := slowServer(t, two, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(w, r.Body)
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(500 * time.Millisecond):
					_, _ = io.WriteString(w, "later")
				case <-r.Context().Done():
				}
			})
			for range 2 { // over one connection
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at.URL, strings.NewReader("now, "))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(text) != "now, later" {
					t.Errorf("the response is %q, %v", text, err)
				}
			}
		})
	}
}

// TestUnlimitedBody checks that a stream of messages has no time limit after the client has sent a valid credential.
func TestUnlimitedBody(t *testing.T) {
	at, client := slowServer(t, true, func(w http.ResponseWriter, r *http.Request) {
		unlimitBody(r.Context())
		_, _ = io.Copy(w, r.Body)
	})
	body, sender := io.Pipe()
	go func() {
		time.Sleep(500 * time.Millisecond)
		_, _ = io.WriteString(sender, "later")
		sender.Close()
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "later" {
		t.Errorf("the body is %q, %v", text, err)
	}
}

// TestT119WebGuestsAreFew (T119) checks that new connections without a valid credential disconnect older ones without a credential. They
// never disconnect a connection with a valid credential.
func TestT119WebGuestsAreFew(t *testing.T) {
	g := newGuests()
	at := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			g.admit(r.Context())
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	at.Config.ConnContext, at.Config.ConnState = g.arrived, g.changed
	at.Start()
	defer at.Close()
	// ask sends a request over a new connection, and returns a function that reports whether the connection is open.
	ask := func(header string) (open func() bool) {
		conn, err := net.Dial("tcp", at.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		buf := make([]byte, 4096)
		if _, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n"+header+"\r\n"); err == nil {
			_, err = conn.Read(buf)
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() bool {
			_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			_, err := conn.Read(buf)
			return errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
	client, oldest := ask("Authorization: x\r\n"), ask("")
	var newest func() bool
	for range maxGuests {
		newest = ask("")
	}
	if !client() || oldest() || !newest() {
		t.Errorf("the client is connected: %t, the oldest guest: %t, the newest: %t", client(), oldest(), newest())
	}
	at.CloseClientConnections()
	at.Close()
	if g.mu.Lock(); len(g.order) != 0 {
		t.Errorf("%d guests are left", len(g.order))
	}
	g.mu.Unlock()
}
