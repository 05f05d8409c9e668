package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cmd/toold/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

var errShort = errors.New("ends before the range does")

// readArtifact reads a range in pieces; a negative length is to the end.
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

func (a *app) artifactCommand() *cobra.Command {
	var offset, limit int64
	c := &cobra.Command{
		Use:   "artifact CALL NAME",
		Short: "Write stored output to standard output",
		Long: `Writes an artifact or an output stream (stdout, stderr) of a call to standard
output, byte by byte; on a terminal, control characters are escaped.`,
		Example: "  toold artifact CALL stdout > log.txt",
		Args:    exactArgs("a CALL", "a NAME"), ValidArgsFunction: a.completeCalls,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			if offset < 0 || limit < 0 {
				return usagef("--offset and --limit cannot be negative")
			}
			length := int64(-1)
			if limit > 0 {
				length = limit
			}
			var escaper show.Escaper
			err := readArtifact(ctx, c, args[0], args[1], offset, length, func(b []byte) error {
				if a.outTerminal {
					b = []byte(escaper.Escape(b))
				}
				_, err := a.out.Write(b)
				return err
			})
			if err == nil || errors.Is(err, errShort) { // who limits a read does not promise that there is so much
				_, err = io.WriteString(a.out, escaper.Flush())
			}
			return err
		}),
	}
	c.Flags().Int64Var(&offset, "offset", 0, "in bytes from the beginning")
	c.Flags().Int64Var(&limit, "limit", 0, "in bytes; 0 is all")
	return c
}
