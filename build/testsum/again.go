package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	runsAgain = 3  // all must pass before a failed test counts as flaky
	mostAgain = 10 // with more failed tests, the failures are not accidental and none is run again
	tailLines = 20 // number of log lines shown for a flaky test
)

// A failure is one line of the final report. test is the top-level test, or empty when the package itself failed.
type failure struct {
	pkg  *pkg
	test string
	what string
}

// A flake is a test that failed and then passed three times when run alone.
type flake struct {
	name string
	log  string
}

var (
	neverFlaky  = regexp.MustCompile(`(?m)WARNING: DATA RACE|race detected during execution|(^|\s)(panic|fatal error): |found unexpected goroutines`)
	redPackages = regexp.MustCompile(`/(crash|store|storetest)(/|$)`)
	redTests    = regexp.MustCompile(`(^Test|/)[PT]\d|Model|Leak|LeavesNothing|NothingIsLeft`)
	rapidSeed   = regexp.MustCompile(`-rapid\.seed=\d+`)
	shuffleSeed = regexp.MustCompile(`(?m)^-test\.shuffle (\d+)`)
)

// red returns why a failed test must not count as flaky, or "".
func (p *pkg) red(test string) string {
	if test == "" {
		return "the package failed"
	}
	if redPackages.MatchString(p.path) {
		return "it is a test of crashes or of the store"
	}
	for name, r := range p.tests {
		if !within(name, test) {
			continue
		}
		if r.action == "" {
			return "its process ended early"
		}
		if r.action == "fail" && redTests.MatchString(name) {
			return "its name says that it shows a promise, an attack, a model or a leak"
		}
	}
	if found := neverFlaky.FindString(p.output.String() + p.treeOutput(test)); found != "" {
		return "its log says " + strings.TrimSpace(found)
	}
	return ""
}

func within(name, test string) bool { return name == test || strings.HasPrefix(name, test+"/") }

// treeOutput returns the output of a test and its subtests.
func (p *pkg) treeOutput(test string) string {
	var b strings.Builder
	for _, name := range p.order {
		if within(name, test) {
			b.WriteString(p.tests[name].output.String())
		}
	}
	return b.String()
}

// runAgain runs each failed test alone, three times, with the arguments of the failed run. It removes the tests that pass from the
// failures. It does not run a test that must not count as flaky, and runs none if there are more than mostAgain.
func (s *summary) runAgain(ctx context.Context, args []string, errOut io.Writer) {
	var candidates []failure
	for _, f := range s.failures {
		if f.pkg == nil || slices.ContainsFunc(candidates, f.sameTest) {
			continue
		}
		if reason := f.pkg.red(f.test); reason != "" {
			fmt.Fprintf(s.out, "not run again: %s: %s\n", f.what, reason)
			continue
		}
		candidates = append(candidates, f)
	}
	if len(candidates) > mostAgain {
		fmt.Fprintf(s.out, "not run again: %d tests, which is more than %d\n", len(candidates), mostAgain)
		return
	}
	for _, f := range candidates {
		if ctx.Err() != nil {
			return
		}
		fmt.Fprintf(s.out, "run again: %s.%s, alone, %d times\n", f.pkg.path, f.test, runsAgain)
		if s.passesAgain(ctx, f, args, errOut) {
			s.forgive(f)
		}
	}
}

func (f failure) sameTest(other failure) bool { return f.pkg == other.pkg && f.test == other.test }

// passesAgain runs one test three times with the flags and seeds of the failed run. It reports whether all three passed.
func (s *summary) passesAgain(ctx context.Context, f failure, args []string, errOut io.Writer) bool {
	again := slices.Concat(withoutPackages(args), []string{
		f.pkg.path, fmt.Sprintf("-count=%d", runsAgain), "-run=^" + f.test + "$", "-failfast",
	})
	if seed := shuffleSeed.FindStringSubmatch(f.pkg.output.String()); seed != nil {
		again = append(again, "-shuffle="+seed[1])
	}
	if seed := rapidSeed.FindString(f.pkg.treeOutput(f.test)); seed != "" {
		again = append(again, seed)
	}
	passed, log := 0, &strings.Builder{}
	err := goTest(ctx, again, errOut, func(line []byte) {
		var e event
		if json.Unmarshal(line, &e) != nil {
			return
		}
		log.WriteString(e.Output)
		if e.Test == f.test && e.Action == "pass" {
			passed++
		}
	})
	if err != nil || passed != runsAgain {
		fmt.Fprintf(s.out, "failed again: %s.%s\n%s\n", f.pkg.path, f.test, indent(log.String()))
		return false
	}
	return true
}

// withoutPackages returns only the flags. The packages are at the end and begin with a dot.
func withoutPackages(args []string) []string {
	end := len(args)
	for end > 0 && strings.HasPrefix(args[end-1], ".") {
		end--
	}
	return args[:end]
}

// forgive removes all failures of a test from the count.
func (s *summary) forgive(f failure) {
	before := len(s.failures)
	s.failures = slices.DeleteFunc(s.failures, f.sameTest)
	s.failed -= before - len(s.failures)
	s.flakes = append(s.flakes, flake{name: f.pkg.path + "." + f.test, log: f.pkg.treeOutput(f.test)})
}

// reportFlakes prints the row that each flaky test needs in the list of flaky tests. A test that already has a row was flaky before.
func (s *summary) reportFlakes(file string) {
	known, _ := os.ReadFile(file) // without the file no test has a row
	for _, f := range s.flakes {
		fmt.Fprintf(s.out, "FLAKY: %s failed, then passed %d times alone. The end of its log:\n%s", f.name, runsAgain, indent(tail(f.log)))
		if strings.Contains(string(known), "`"+f.name+"`") {
			fmt.Fprintf(s.out, "  %s names it already: mend or remove it before anything else\n", file)
			continue
		}
		fmt.Fprintf(s.out, "  add to %s: | `%s` | %s | what was seen |\n", file, f.name, time.Now().UTC().Format(time.DateOnly))
	}
}

func tail(log string) string {
	lines := strings.SplitAfter(strings.TrimRight(log, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "")
}
