package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A plugin is a plugin of the daemon, or an external hook, with the settings that enable only it.
type plugin struct {
	name     string
	settings string
	// serve starts the service that the plugin calls, in this process. at is its address, which replaces %s in the settings. A nil serve
	// means that the plugin needs no service.
	serve func(dir string) (at string, stop func(), err error)
}

// plugins lists the measured plugins. Under their settings every call continues, except in one row: there the cache answers in place of the
// tool.
var plugins = []plugin{
	{name: "ratelimit: one limit by principal", settings: "ratelimit: [{name: all, by: [principal], calls: 1000000, per: 1s}]\n"},
	{name: "loopguard: repeats, calls and failures", settings: "loopguard: {repeats: 20, except: [bench_noop], calls: 1000000000, failures: 5}\n"},
	{name: "cache: of another tool", settings: "cache: {rules: [{tools: [other], ttl: 1m}]}\n"},
	{name: "cache: kept answers, the tool does not run", settings: "cache: {rules: [{tools: [bench_noop], ttl: 24h}]}\n"},
	{name: "remind: of another tool", settings: "remind: [{name: other, text: Remember., tools: [other]}]\n"},
	{name: "remind: a pattern that does not match", settings: "remind: [{name: none, text: Remember., result: 'never found'}]\n"},
	{name: "notify: who wants questions alone", settings: "notify: {targets: [{name: t, url: '%[1]s', secret_file: %[2]s, events: [suspended]}]}\n", serve: receive},
	{name: "notify: who is told each end", settings: "notify: {targets: [{name: t, url: '%[1]s', secret_file: %[2]s, events: [finished], at_once: 64}]}\n", serve: receive},
	{name: "audit", settings: "audit: {enabled: true}\n"},
	{name: "redact: one value and tokens", settings: "redact: {tokens: true, values: [{value: correct horse battery}]}\n"},
	{name: "a service as a gate, of other calls", settings: "hooks: [{name: h, remote: {address: 'unix:%s'}, match: {tools: [other]}}]\n", serve: answer},
	{name: "a service as a gate", settings: "hooks: [{name: h, remote: {address: 'unix:%s'}, at_once: 1000}]\n", serve: answer},
	{name: "a command as a gate", settings: "hooks: [{name: h, command: [/bin/true]}]\n"},
}

// pluginRows returns a row for each plugin. The row measures how much more CPU time the server needs for a read-only call with the plugin
// than without it.
func pluginRows() (all []row) {
	for _, p := range plugins {
		all = append(all, row{p.name, "", p.cost})
	}
	return all
}

func (p plugin) cost(ctx context.Context, s *settings) (result, error) {
	text := p.settings
	if p.serve != nil {
		dir, err := os.MkdirTemp(s.dir, "plugin-")
		if err != nil {
			return result{}, err
		}
		at, stop, err := p.serve(dir)
		if err != nil {
			return result{}, err
		}
		defer stop()
		text = fmt.Sprintf(text+"%.0[2]s", at, filepath.Join(dir, "secret"))
	}
	with, err := startDaemon(ctx, s, text)
	if err != nil {
		return result{}, err
	}
	defer with.stop()
	without, err := startDaemon(ctx, s)
	if err != nil {
		return result{}, err
	}
	defer without.stop()
	var a, b []time.Duration
	for range s.rounds {
		for _, side := range []struct {
			p   *process
			cpu *[]time.Duration
		}{{with, &a}, {without, &b}} {
			got, err := load(ctx, side.p, s.clients, s.duration, execute("bench_noop"))
			if err != nil {
				return result{}, err
			}
			*side.cpu = append(*side.cpu, got.cpu)
		}
	}
	least, half, round := slices.Min(a)-slices.Min(b), middle(a)-middle(b), 100*time.Nanosecond
	return result{
		value:  least.Round(round).String(),
		detail: fmt.Sprintf("by the least of each side; %v by the middle; a call without it %v to %v", half.Round(round), slices.Min(b).Round(round), slices.Max(b).Round(round)),
	}, nil
}

func middle(times []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(times))[len(times)/2]
}

// receive serves webhooks and discards them.
func receive(dir string) (string, func(), error) {
	secret := "whsec_dG9vbGQncyBiZW5jaG1hcmsgaGFzIG5vIHNlY3JldHM=\n"
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte(secret), 0o600); err != nil {
		return "", nil, err
	}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	return s.URL, s.Close, nil
}

type allows struct {
	tooldv1.UnimplementedHookServiceServer
}

func (allows) Gate(context.Context, *tooldv1.GateRequest) (*tooldv1.GateResponse, error) {
	return &tooldv1.GateResponse{Verdict: &tooldv1.GateResponse_Allow{Allow: &tooldv1.GateAllow{}}}, nil
}

// answer serves a gate that allows every call.
func answer(dir string) (string, func(), error) {
	path := filepath.Join(dir, "s")
	lis, err := net.Listen("unix", path)
	if err != nil {
		return "", nil, err
	}
	s := grpc.NewServer()
	tooldv1.RegisterHookServiceServer(s, allows{})
	go func() { _ = s.Serve(lis) }()
	return path, s.Stop, nil
}
