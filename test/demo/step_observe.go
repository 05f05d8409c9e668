package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// listTools reads the tools with the command line and with the API. Both lists must agree.
func (s *stage) listTools(ctx context.Context) error {
	a, err := s.toold(ctx, 14, "tools")
	if err := errors.Join(err, a.is(0)); err != nil {
		return err
	}
	answer, err := s.api.tools.ListTools(ctx, &tooldv1.ListToolsRequest{})
	if err != nil {
		return err
	}
	var ids []string
	for _, d := range answer.GetTools() {
		ids = append(ids, d.GetId())
		if !slices.ContainsFunc(strings.Split(a.stdout, "\n"), func(l string) bool { return strings.HasPrefix(l, d.GetId()+" ") }) {
			return fmt.Errorf("the API lists %s, the command line does not", d.GetId())
		}
	}
	for _, needed := range []string{"ask_user", "bash", "edit", "glob", "grep", "read", "write"} {
		if !slices.Contains(ids, needed) {
			return fmt.Errorf("there is no tool %s among %v", needed, ids)
		}
	}
	s.tell.proof("the gRPC API lists the same %d tools", len(ids))
	return nil
}

// grep compares the result of the tool with the demo's own search in the files.
func (s *stage) grep(ctx context.Context) error {
	before, err := s.snapshot()
	if err != nil {
		return err
	}
	a, err := s.toold(ctx, 8, "call", "grep", "pattern=TODO", "path=.")
	if err := errors.Join(err, a.is(0)); err != nil {
		return err
	}
	matches := 0
	for name, text := range before {
		number := 0
		for row := range bytes.Lines(text) {
			number++
			if !bytes.Contains(row, []byte("TODO")) {
				continue
			}
			matches++
			if err := contains("grep", a.stdout, fmt.Sprintf("%s:%d:%s", name, number, bytes.TrimRight(row, "\n"))); err != nil {
				return err
			}
		}
	}
	if shown := strings.Count(a.stdout, "TODO"); shown != matches || matches == 0 {
		return fmt.Errorf("grep shows %d lines with TODO, the files have %d", shown, matches)
	}
	after, err := s.snapshot()
	if changed := differences(before, after); err != nil || len(changed) > 0 {
		return errors.Join(err, fmt.Errorf("grep changed %v", changed))
	}
	s.tell.proof("these are the %d lines that the files hold; nobody was asked and no file changed", matches)
	return s.nobodyWaits(ctx)
}
