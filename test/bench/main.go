package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/toold-dev/toold/store"
)

// settings are the parameters and shared resources of the benchmarks.
type settings struct {
	rounds   int
	duration time.Duration // how long one side is measured in one round
	clients  int
	dir      string // temporary directory on a real disk
	binary   string // path of the daemon binary
	mcp      string // path of the MCP servers; empty until a row needs them

	history   store.Store // journal with a million calls; nil until a row needs it
	firstCall int64       // number of the first call in history
	ends      []func()
}

// A row is one line of the table.
type row struct {
	name string
	hold string // the limit that the design requires
	run  func(ctx context.Context, s *settings) (result, error)
}

// A result is the outcome of a row: the ratios of the rounds and the measurements behind them.
type result struct {
	ratios []float64 // daemon divided by reference; empty for rows without a reference
	value  string    // for rows without a reference
	detail string
}

// references are the servers that the daemon is compared with, by the argument that starts them.
var references = map[string]func() error{"bare": serveBare, "bare-http": serveBareHTTP}

func firstArgument() string {
	if len(os.Args) < 2 {
		return ""
	}
	return os.Args[1]
}

func main() {
	if serve := references[firstArgument()]; serve != nil {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	s := &settings{clients: 64}
	only := flag.String("only", "", "run the rows whose name contains this")
	table := rows()
	flag.BoolFunc("plugins", "measure what each plugin adds to a call, in place of the table of the design", func(string) error {
		table = pluginRows()
		return nil
	})
	flag.IntVar(&s.rounds, "rounds", 3, "rounds of each row")
	flag.DurationVar(&s.duration, "duration", 3*time.Second, "time of one side of one round")
	flag.StringVar(&s.binary, "toold", "", "a daemon built from test/bench/toold; empty builds one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s, table, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s *settings, table []row, only string) error {
	dir, err := os.MkdirTemp("", "toold-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s.dir = dir
	if s.binary == "" {
		if s.binary, err = build(ctx, dir); err != nil {
			return err
		}
	}
	defer func() {
		for _, end := range s.ends {
			end()
		}
	}()
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "what\thold\tmedian\tspread\tdetail")
	failed := 0
	for _, r := range table {
		if !strings.Contains(r.name, only) || ctx.Err() != nil {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s …\n", r.name)
		debug.FreeOSMemory() // Return the memory to the system: a heap of 1 GiB from one row made the processes of the next row 3 % slower.
		got, err := r.run(ctx, s)
		if err != nil {
			failed++
			fmt.Fprintf(w, "%s\t%s\tFAILED\t\t%v\n", r.name, r.hold, err)
			continue
		}
		median, spread := got.value, ""
		if len(got.ratios) > 0 {
			slices.Sort(got.ratios)
			median = fmt.Sprintf("%.2f", got.ratios[len(got.ratios)/2])
			spread = fmt.Sprintf("%.2f–%.2f", got.ratios[0], got.ratios[len(got.ratios)-1])
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.name, r.hold, median, spread, got.detail)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d rows failed", failed)
	}
	return ctx.Err()
}
