package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

var errShort = errors.New("ends before the end of the range")

// readArtifact reads a range of an artifact in pieces and passes each to take. A negative length reads to the end.
func readArtifact(ctx context.Context, c *client, id, name string, offset, length int64, take func([]byte) error) error {
	const piece = 512 << 10
	for length != 0 {
		want := int64(piece)
		if length > 0 {
			want = min(length, piece)
		}
		got, err := c.calls.ReadArtifact(ctx, &tooldv1.ReadArtifactRequest{CallId: id, Name: name, Offset: offset, Limit: want})
		if err != nil {
			return fmt.Errorf("artifact %s: %w", name, err)
		}
		n := int64(len(got.GetData()))
		if n == 0 {
			if length > 0 {
				return fmt.Errorf("artifact %s: %w", name, errShort)
			}
			return nil
		}
		if err := take(got.GetData()); err != nil {
			return err
		}
		offset += n
		if length > 0 {
			length -= n
		}
		if got.GetEof() && length < 0 {
			return nil
		}
	}
	return nil
}

// artifactArgs accepts CALL NAME, or one handle that contains both.
func artifactArgs(args []string) (id, name string, err error) {
	if len(args) == 2 {
		return args[0], args[1], nil
	}
	rest, isHandle := strings.CutPrefix(args[0], "artifact://")
	id, name, both := strings.Cut(rest, "/")
	if isHandle && both && !strings.Contains(name, "/") {
		if id, err = url.PathUnescape(id); err == nil {
			name, err = url.PathUnescape(name)
		}
		if err == nil && id != "" && name != "" {
			return id, name, nil
		}
	}
	return "", "", Usagef("want CALL NAME, or a handle artifact://CALL/NAME")
}

// artifactRange selects the part of the artifact to read.
type artifactRange struct {
	offset, limit     int64
	line, lines       int64
	search            string
	regexp, ignoring  bool
	givenOffset, some bool // givenOffset: --offset or --limit was given; some: --line or --lines was given
}

func (r *artifactRange) check() error {
	switch {
	case r.offset < 0 || r.limit < 0 || r.lines < 0:
		return Usagef("--offset, --limit and --lines cannot be negative")
	case r.line == 0:
		return Usagef("--line counts from 1, or from the end with -1 for the last line")
	case r.some && r.givenOffset:
		return Usagef("--line and --lines count lines, --offset and --limit count bytes: use flags of one kind")
	case r.search != "" && (r.some || r.limit != 0):
		return Usagef("--search can only be combined with --offset")
	case r.search == "" && (r.regexp || r.ignoring):
		return Usagef("--regexp and --ignore-case need --search")
	}
	return nil
}

// readLines reads count lines in pieces, starting at line first, and passes each piece to take. Count 0 reads to the end.
func readLines(ctx context.Context, c *client, id, name string, first, count int64, take func([]byte) error) error {
	const piece = 2000
	for left := count; count == 0 || left > 0; {
		want := int64(piece)
		if count > 0 {
			want = min(want, left)
		}
		got, err := c.calls.ReadArtifact(ctx, &tooldv1.ReadArtifactRequest{CallId: id, Name: name, Lines: &tooldv1.ArtifactLines{First: first, Count: want}, Limit: 512 << 10})
		if err != nil {
			return fmt.Errorf("artifact %s: %w", name, err)
		}
		if len(got.GetData()) == 0 {
			return nil
		}
		if err := take(got.GetData()); err != nil {
			return err
		}
		for cut := got; !bytes.HasSuffix(cut.GetData(), []byte{'\n'}); { // the last line is longer than a piece: read the rest of it
			cut, err = c.calls.ReadArtifact(ctx, &tooldv1.ReadArtifactRequest{CallId: id, Name: name, Offset: cut.GetNextOffset(), Limit: 512 << 10})
			if err != nil {
				return fmt.Errorf("artifact %s: %w", name, err)
			}
			if i := bytes.IndexByte(cut.GetData(), '\n'); i >= 0 {
				cut.Data = cut.GetData()[:i+1]
			}
			if len(cut.GetData()) == 0 {
				return nil
			}
			if err := take(cut.GetData()); err != nil {
				return err
			}
		}
		first, left = got.GetFirstLine()+got.GetLineCount(), left-got.GetLineCount()
	}
	return nil
}

// searchArtifact prints each matching line with its line number.
func searchArtifact(ctx context.Context, a *App, c *client, id, name string, r *artifactRange) error {
	for offset := r.offset; ; {
		got, err := c.calls.ReadArtifact(ctx, &tooldv1.ReadArtifactRequest{CallId: id, Name: name, Offset: offset,
			Search: &tooldv1.ArtifactSearch{Pattern: r.search, Regexp: r.regexp, IgnoreCase: r.ignoring, Limit: 1000}})
		if err != nil {
			return fmt.Errorf("artifact %s: %w", name, err)
		}
		for _, m := range got.GetMatches() {
			text := m.GetText()
			if a.OutTerminal {
				var escaper show.Escaper
				text = escaper.Escape([]byte(text)) + escaper.Flush()
			}
			if m.GetTruncated() {
				text += " …"
			}
			if _, err := fmt.Fprintf(a.Out, "%d:%s\n", m.GetLine(), text); err != nil {
				return err
			}
		}
		if got.GetNextOffset() == offset || got.GetNextOffset() >= got.GetTotalSize() {
			return nil
		}
		offset = got.GetNextOffset()
	}
}

// oneOrTwoArgs accepts a handle, or a call and a name.
func oneOrTwoArgs(c *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return ExactArgs("a CALL", "a NAME")(c, args)
}

func artifactCommand(a *App) *cobra.Command {
	var r artifactRange
	c := &cobra.Command{
		Use:   "artifact CALL NAME",
		Short: "Write stored output to standard output",
		Long: `Writes an artifact or an output stream (stdout, stderr, pty) of a call to
standard output. The bytes are unchanged; on a terminal, control characters are
escaped. Instead of CALL and NAME you can give the handle artifact://CALL/NAME,
which models get.`,
		Example: `  toold artifact CALL stdout > log.txt
  toold artifact artifact://CALL/stdout --line 2000 --lines 50
  toold artifact CALL stdout --line -20
  toold artifact CALL stdout --search 'error|panic' --regexp`,
		Args:              oneOrTwoArgs,
		ValidArgsFunction: a.completeCalls,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			id, name, err := artifactArgs(args)
			if err == nil {
				err = r.check()
			}
			if err != nil {
				return err
			}
			if r.search != "" {
				return searchArtifact(ctx, a, c, id, name, &r)
			}
			var escaper show.Escaper
			take := func(b []byte) error {
				if a.OutTerminal {
					b = []byte(escaper.Escape(b))
				}
				_, err := a.Out.Write(b)
				return err
			}
			if r.some {
				err = readLines(ctx, c, id, name, r.line, r.lines, take)
			} else {
				err = readArtifact(ctx, c, id, name, r.offset, cmp.Or(r.limit, -1), take)
			}
			if err == nil || errors.Is(err, errShort) { // a shorter read is no error: the limit is a maximum
				_, err = io.WriteString(a.Out, escaper.Flush())
			}
			return err
		}),
	}
	flags := c.Flags()
	flags.Int64Var(&r.offset, "offset", 0, "position of the first byte, from 0")
	flags.Int64Var(&r.limit, "limit", 0, "largest number of bytes; 0 means all")
	flags.Int64Var(&r.line, "line", 1, "number of the first line, from 1; -100 starts with the last 100 lines")
	flags.Int64Var(&r.lines, "lines", 0, "largest number of lines; 0 means all")
	flags.StringVar(&r.search, "search", "", "print only the lines that contain this text, with their numbers")
	flags.BoolVar(&r.regexp, "regexp", false, "the text of --search is a regular expression (RE2)")
	flags.BoolVar(&r.ignoring, "ignore-case", false, "search without regard to upper and lower case")
	c.PreRun = func(*cobra.Command, []string) {
		r.some = flags.Changed("line") || flags.Changed("lines")
		r.givenOffset = flags.Changed("offset") || flags.Changed("limit")
	}
	return c
}
