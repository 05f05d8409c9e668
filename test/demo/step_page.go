package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const (
	pageRows = 200_000
	pageRow  = 77_777
)

// page shows how a model handles output that is too long to read. The result contains the head, the tail and a handle. With the handle the
// model reads a page of the rest and searches in it.
func (s *stage) page(ctx context.Context) error {
	command := fmt.Sprintf("seq %d", pageRows)
	s.tell.command(typed([]string{"call", "bash", "command=" + command}) + "   # as a model's call; what the model reads of it:")
	r, err := s.api.calls.CallTool(ctx, &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{
		Tool: "bash", CallId: "demo-prints-much-1", Arguments: fmt.Sprintf(`{"command": %q}`, command),
	}})
	if err != nil {
		return err
	}
	text := modelText(r.GetCall().GetResult())
	head, rest, _ := strings.Cut(text, "\n[… ")
	note, tail, _ := strings.Cut(rest, "\n")
	_, named, _ := strings.Cut(note, "the full text is ")
	handle, _, _ := strings.Cut(named, " ")
	if !strings.HasPrefix(head, "1\n2\n") || !strings.HasSuffix(strings.TrimSpace(tail), fmt.Sprint(pageRows)) || !strings.HasPrefix(handle, "artifact://") {
		return fmt.Errorf("the result is not head, handle and tail: %.200q", text)
	}
	for _, l := range []string{"1", "2", "…", "[… " + note, "…", fmt.Sprint(pageRows)} {
		s.tell.printed(l)
	}
	s.tell.proof("of %d lines the model got %d, and a handle to the rest", pageRows, strings.Count(text, "\n"))
	a, err := s.toold(ctx, 6, "call", "read", "path="+handle, fmt.Sprintf("offset=%d", pageRow), "limit=3")
	if err := errors.Join(err, a.is(0), contains("the page", a.stdout, fmt.Sprintf("%d\t%d", pageRow+2, pageRow+2))); err != nil {
		return err
	}
	a, err = s.toold(ctx, 6, "call", "read", "path="+handle, fmt.Sprintf("search=%d$", pageRow))
	if err := errors.Join(err, a.is(0), contains("the search", a.stdout, fmt.Sprintf("177777\t1%d", pageRow))); err != nil {
		return err
	}
	s.tell.proof("line %d is %d: the page and the search read the stored output, of which nothing is lost", pageRow, pageRow)
	return nil
}
