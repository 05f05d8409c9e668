package daemon

import (
	"bufio"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/toold-dev/toold/cli"
	"github.com/toold-dev/toold/daemon/config"
)

// Commands in the banner begin with the name by which the daemon was started, so that people can copy them.
func TestBannerNamesTheProgram(t *testing.T) {
	text := (&daemon{cfg: &config.Config{Data: "my data"}, options: options{program: "bin/toold"}}).welcome(&Ready{}, "")
	if !strings.Contains(text, "\n  bin/toold --data 'my data' tools\n") {
		t.Errorf("the banner says %s", text)
	}
}

// On a terminal, a daemon with HTTP prints a link that signs a browser in.
func TestBannerSignsIn(t *testing.T) {
	fd, slave := newTerminal(t)
	master := os.NewFile(uintptr(fd), "/dev/ptmx")
	defer master.Close()
	cmd := newSite(t, "").command("--listen-http", "127.0.0.1:0")
	cmd.Stdout = slave
	must(t, cmd.Start())
	slave.Close()
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for lines := bufio.NewScanner(master); lines.Scan(); {
		base, link, found := strings.Cut(strings.TrimSpace(lines.Text()), "/login#")
		if !found {
			continue
		}
		_, port, _ := strings.Cut(strings.TrimPrefix(base, "http://"), ":")
		b := &browser{t: t, base: "http://127.0.0.1:" + port}
		if resp := b.exchange(base, link, "same-origin"); resp.StatusCode != http.StatusNoContent {
			t.Errorf("the link gives %s", resp.Status)
		}
		http.DefaultClient.CloseIdleConnections()
		return
	}
	t.Error("the banner has no link")
}

func TestVersionAsJSON(t *testing.T) {
	r := new(run).do(t, t.TempDir(), "version", "-o", "json")
	if r.code != 0 || !strings.Contains(r.out, `"version":"test"`) {
		t.Errorf("exit code %d: %s", r.code, r.out)
	}
}

func TestTokenHashFitsTheConfiguration(t *testing.T) {
	r := (&run{in: strings.Repeat("k", 40) + "\n"}).do(t, t.TempDir(), "token", "hash")
	if _, err := (config.Token{Hash: strings.TrimSpace(r.out)}).Sum(); err != nil || r.code != 0 {
		t.Errorf("%q: %v", r.out, err)
	}
	(&run{in: "short\n"}).do(t, t.TempDir(), "token", "hash").expect(t, cli.ExitUsage, "", "at least 32")
}

func TestServeRefuses(t *testing.T) {
	nobody := t.TempDir()
	new(run).do(t, nobody, "serve", "--address", "x").expect(t, cli.ExitUsage, "", "--address works only with commands that connect to a daemon")
	new(run).do(t, nobody, "serve", "--listen-tcp", "0.0.0.0:0").expect(t, cli.ExitUsage, "", "reachable from other machines")
}
