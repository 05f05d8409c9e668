// Testsum runs "go test -json" with the given arguments and prints a summary at the end.
//
//	testsum [-must dir]... [-ci] [-again=false] [-flaky file] -- [go test flags and packages]
//
// It prints failures completely and one line for each package that passes. The last line is
//
//	N passed, N failed[, N flaky][, N skipped]
//
// A test that failed runs again alone, three times, with the flags and seeds of the failed run. When all three pass, the test is FLAKY: the
// final lines name it, with the end of its log and the row for docs/flaky.md, and the run passes. With -again=false every failed test fails
// the run.
//
// Some failures fail the run at once, without running the test again: a data race, a panic and a leak. The failures of some tests do so
// too: tests of crashes, of the store, of a promise or of an attack, and tests that compare the code with a reference model.
//
// The exit code is 1 when a test failed, a package did not build, no test passed in a directory named by -must, no test ran at all, or go
// test itself failed. With -ci it is also 1 when a test was skipped, because the landing check must run everything.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	var must []string
	flags := flag.NewFlagSet("testsum", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.Func("must", "a `directory` under which at least one test has to pass; may be repeated", func(dir string) error {
		must = append(must, strings.Trim(strings.TrimPrefix(dir, "./"), "/"))
		return nil
	})
	ci := flags.Bool("ci", false, "a skipped test, or a package without any, counts as a failure")
	again := flags.Bool("again", true, "run a failed test again alone, to see whether it is flaky")
	known := flags.String("flaky", "docs/flaky.md", "the `file` that names the tests that were flaky before")
	if err := flags.Parse(args); err != nil {
		return 2
	}

	s := newSummary(out, must, *ci)
	started := time.Now()
	err := goTest(ctx, flags.Args(), errOut, s.line)
	if err != nil {
		s.commandFailed(err)
	}
	if *again {
		s.runAgain(ctx, flags.Args(), errOut)
	}
	if !s.report(time.Since(started), *known) {
		return 1
	}
	return 0
}

// goTest passes every line of go test's output to take. When ctx ends, it sends go test an interrupt, as a shell would.
func goTest(ctx context.Context, args []string, errOut io.Writer, take func(line []byte)) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Stderr = errOut
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(pipe)
	var readErr error
	for readErr == nil {
		var line []byte
		line, readErr = lines.ReadBytes('\n')
		if len(line) > 0 {
			take(line)
		}
	}
	if errors.Is(readErr, io.EOF) {
		readErr = nil
	}
	if ctx.Err() != nil {
		readErr = fmt.Errorf("interrupted")
	}
	return errors.Join(readErr, cmd.Wait())
}
