package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// An event is a line of "go test -json" (see "go doc test2json" and "go help buildjson").
type event struct {
	Action      string
	Package     string
	ImportPath  string // for build-output and build-fail
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// A result is the outcome of one test or subtest.
type result struct {
	output   strings.Builder
	action   string // pass, fail or skip; empty while the test runs
	children bool   // it has subtests, which count instead of it
	failed   bool   // one of its subtests failed
}

// A pkg is the outcome of one package. output is the text that belongs to no test: panics of TestMain, leaks, races.
type pkg struct {
	path                    string
	output                  strings.Builder
	tests                   map[string]*result
	order                   []string
	passed, failed, skipped int
}

// A summary counts the tests without subtests. It counts a test with subtests only if that test failed and none of its subtests did.
type summary struct {
	out  io.Writer
	must []string
	ci   bool

	packages map[string]*pkg
	builds   map[string]*strings.Builder
	failures []failure
	flakes   []flake
	skips    []string
	empty    []string // packages without tests
	ran      []string // lines that tests print for the reader, starting with "ran: "
	ended    []*pkg
	passed   int
	failed   int
	skipped  int
}

func newSummary(out io.Writer, must []string, ci bool) *summary {
	return &summary{out: out, must: must, ci: ci, packages: map[string]*pkg{}, builds: map[string]*strings.Builder{}}
}

// line processes one line of go test. A line that is not JSON comes from the go command itself and is printed unchanged.
func (s *summary) line(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil || e.Action == "" {
		fmt.Fprintf(s.out, "%s\n", strings.TrimRight(string(line), "\n"))
		return
	}
	switch e.Action {
	case "build-output":
		b, ok := s.builds[e.ImportPath]
		if !ok {
			b = &strings.Builder{}
			s.builds[e.ImportPath] = b
		}
		b.WriteString(e.Output)
		return
	case "build-fail":
		return // the failure is reported with the package that needed the build
	}
	p, ok := s.packages[e.Package]
	if !ok {
		p = &pkg{path: e.Package, tests: map[string]*result{}}
		s.packages[e.Package] = p
	}
	if e.Action == "output" {
		s.collectRan(e.Output)
	}
	if e.Test == "" {
		s.packageEvent(p, e)
		return
	}
	p.testEvent(e)
}

// collectRan keeps the "ran: " lines of a test for the end of the run, with or without the prefix of t.Log.
func (s *summary) collectRan(output string) {
	text := strings.TrimSpace(output)
	if file, rest, ok := strings.Cut(text, ": "); ok && strings.Contains(file, ".go:") {
		text = rest
	}
	if strings.HasPrefix(text, "ran: ") {
		s.ran = append(s.ran, text)
	}
}

func (p *pkg) testEvent(e event) {
	r := p.test(e.Test)
	switch e.Action {
	case "run": // a further run, with -count or -cpu
		if r.action != "fail" {
			r.action = ""
			r.output.Reset()
		}
	case "output":
		r.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		if r.action != "fail" {
			r.action = e.Action
		}
	}
}

func (p *pkg) test(name string) *result {
	if r, ok := p.tests[name]; ok {
		return r
	}
	r := &result{}
	p.tests[name] = r
	p.order = append(p.order, name)
	if parent := p.parent(name); parent != nil {
		parent.children = true
	}
	return r
}

// parent returns the test that started this subtest. A subtest name may contain slashes, so parent tries each shorter prefix of the name.
func (p *pkg) parent(name string) *result {
	for {
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return nil
		}
		name = name[:i]
		if r, ok := p.tests[name]; ok {
			return r
		}
	}
}

func (s *summary) packageEvent(p *pkg, e event) {
	switch e.Action {
	case "output":
		p.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		s.endPackage(p, e)
	}
}

func (s *summary) endPackage(p *pkg, e event) {
	s.ended = append(s.ended, p)
	s.countTests(p)
	switch {
	case e.FailedBuild != "":
		s.fail(p, "", p.path+" (did not build)", s.buildOutput(e.FailedBuild)+p.output.String())
	case e.Action == "fail" && p.failed == 0:
		s.fail(p, "", p.path+" (the package failed, none of its tests did)", p.output.String())
	case e.Action == "fail":
		fmt.Fprint(s.out, p.output.String())
	case p.passed+p.skipped == 0:
		s.empty = append(s.empty, p.path)
		return
	}
	s.passed += p.passed
	s.failed += p.failed
	s.skipped += p.skipped
	word := "ok  "
	if p.failed > 0 {
		word = "FAIL"
	}
	fmt.Fprintf(s.out, "%s  %-58s %5d passed %8.1fs\n", word, p.path, p.passed, e.Elapsed)
}

// countTests visits subtests before their parents, so that a parent knows whether a subtest failed.
func (s *summary) countTests(p *pkg) {
	names := slices.Clone(p.order)
	slices.SortStableFunc(names, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	for _, name := range names {
		r := p.tests[name]
		full := p.path + "." + name
		switch {
		case r.action == "": // the test was running when its process ended
			s.fail(p, name, full+" (did not end)", r.output.String())
		case r.action == "fail" && !r.failed:
			s.fail(p, name, full, r.output.String())
		case r.action == "fail":
			fmt.Fprint(s.out, indent(r.output.String())) // the output of the test outside of its subtests
		case r.action == "skip":
			p.skipped++
			s.skips = append(s.skips, full+skipReason(r.output.String()))
		case r.action == "pass" && !r.children:
			p.passed++
		}
		if parent := p.parent(name); parent != nil && (r.action == "fail" || r.action == "") {
			parent.failed = true
		}
	}
}

// fail records the failure of a test, or of the package when name is empty.
func (s *summary) fail(p *pkg, name, what, output string) {
	p.failed++
	top, _, _ := strings.Cut(name, "/")
	s.failures = append(s.failures, failure{pkg: p, test: top, what: what})
	fmt.Fprintf(s.out, "\n--- FAIL %s\n%s\n", what, indent(output))
}

func (s *summary) buildOutput(importPath string) string {
	if b, ok := s.builds[importPath]; ok {
		return b.String()
	}
	return ""
}

// commandFailed records that go test exited with an error. It counts as a failure only if no test failed.
func (s *summary) commandFailed(err error) {
	if s.failed == 0 {
		s.failed++
		s.failures = append(s.failures, failure{what: "go test: " + err.Error()})
	}
}

// report prints the end of the run, including rows that flakyFile lacks. It returns whether the run passed.
func (s *summary) report(took time.Duration, flakyFile string) bool {
	missing := s.missing()
	s.failed += len(missing)
	for _, what := range missing {
		s.failures = append(s.failures, failure{what: what})
	}

	fmt.Fprintln(s.out)
	for _, line := range s.ran {
		fmt.Fprintln(s.out, line)
	}
	fmt.Fprintf(s.out, "ran: %d packages with tests in %v", len(s.ended)-len(s.empty), took.Round(time.Second))
	if len(s.empty) > 0 {
		fmt.Fprintf(s.out, "; %d without: %s", len(s.empty), strings.Join(s.empty, " "))
	}
	fmt.Fprintln(s.out)
	for _, skip := range s.skips {
		fmt.Fprintln(s.out, "SKIPPED:", skip)
	}
	for _, failure := range s.failures {
		fmt.Fprintln(s.out, "FAILED:", failure.what)
	}
	s.reportFlakes(flakyFile)
	ok := s.failed == 0 && (!s.ci || s.skipped == 0)
	if s.skipped > 0 {
		fmt.Fprintf(s.out, "%d TESTS DID NOT RUN: this run does not show that the project works\n", s.skipped)
	}
	fmt.Fprintf(s.out, "%d passed, %d failed", s.passed, s.failed)
	if len(s.flakes) > 0 {
		fmt.Fprintf(s.out, ", %d flaky", len(s.flakes))
	}
	if s.skipped > 0 {
		fmt.Fprintf(s.out, ", %d skipped", s.skipped)
	}
	fmt.Fprintln(s.out)
	return ok
}

// missing returns what the run had to show and did not: the directories of -must in which no test passed, or that no test ran at all.
func (s *summary) missing() []string {
	var missing []string
	for _, dir := range s.must {
		ran := slices.ContainsFunc(s.ended, func(p *pkg) bool {
			return p.passed > 0 && strings.Contains(p.path+"/", "/"+dir+"/")
		})
		if !ran {
			missing = append(missing, fmt.Sprintf("%s (no test passed there, and this run has to show it)", dir))
		}
	}
	if s.passed+s.failed+s.skipped+len(s.flakes) == 0 && len(missing) == 0 {
		missing = append(missing, "no test ran")
	}
	return missing
}

// skipReason returns the text of t.Skip, which go test prints on the line before the verdict.
func skipReason(output string) string {
	for line := range strings.Lines(output) {
		text := strings.TrimSpace(line)
		if strings.Contains(text, ".go:") {
			return ": " + text
		}
	}
	return ""
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "=== ") {
			continue
		}
		b.WriteString("    " + line)
	}
	if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
		b.WriteString("\n")
	}
	return b.String()
}
