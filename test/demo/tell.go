package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// A teller prints the progress of the demo. It uses colour only on a terminal.
type teller struct {
	out    io.Writer
	colour bool
}

func newTeller(out *os.File) *teller {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &teller{out: out, colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

const (
	bold  = "1"
	faint = "2"
	red   = "31"
	green = "32"
	cyan  = "36"
)

func (t *teller) paint(colour, text string) string {
	if !t.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (t *teller) line(indent, text string) { fmt.Fprintln(t.out, indent+text) }

func (t *teller) step(number, of int, title string) {
	t.line("\n", t.paint(bold, fmt.Sprintf("%2d/%d  %s", number, of, title)))
}

// note prints what the demo does between the commands.
func (t *teller) note(format string, args ...any) { t.line("  ", fmt.Sprintf(format, args...)) }

// command prints a command as a user would type it.
func (t *teller) command(words string) { t.line("  ", t.paint(cyan, "$ "+words)) }

// output prints the output of a command. After the given number of lines, it prints how many more there are.
func (t *teller) output(text string, most int) {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return
	}
	lines := strings.Split(text, "\n")
	if cut := len(lines) - most; cut > 1 {
		lines = append(lines[:most:most], fmt.Sprintf("… %d more lines", cut))
	}
	for _, line := range lines {
		t.printed(line)
	}
}

// ending prints the last lines of a text.
func (t *teller) ending(text string, most int) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for _, line := range lines[max(0, len(lines)-most):] {
		t.printed(line)
	}
}

// printed prints one line of a command's output.
func (t *teller) printed(line string) {
	if runes := []rune(line); len(runes) > 140 {
		line = string(runes[:139]) + "…"
	}
	t.line("    ", t.paint(faint, line))
}

// proof prints a claim that the demo has verified.
func (t *teller) proof(format string, args ...any) {
	t.line("  ", t.paint(green, "✓ ")+fmt.Sprintf(format, args...))
}

// failure prints a claim that turned out to be false.
func (t *teller) failure(format string, args ...any) {
	t.line("  ", t.paint(red, "✗ ")+fmt.Sprintf(format, args...))
}
