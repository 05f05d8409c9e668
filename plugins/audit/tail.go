package audit

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// tailSize is how many bytes of a file of checkpoints Tail reads: about 40,000 checkpoints.
const tailSize = 16 << 20

// Tail reads the checkpoints of one chain from the last 16 MiB of a file, ordered by position. A newer checkpoint covers all records before
// it, so the older checkpoints are not needed. Tail does not check the signatures: see [Check]. A missing file has no checkpoints.
func Tail(path, store, namespace string) ([]Checkpoint, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-tailSize), tailSize))
	if err != nil {
		return nil, err
	}
	if info.Size() > tailSize {
		_, text, _ = bytes.Cut(text, []byte{'\n'}) // The first line is incomplete.
	}
	var found []Checkpoint
	for line := range bytes.Lines(text) {
		var c Checkpoint
		if json.Unmarshal(line, &c) == nil && c.Store == store && c.Namespace == namespace { // A crash may have cut off the last line.
			found = append(found, c)
		}
	}
	sortCheckpoints(found)
	return found, nil
}

func sortCheckpoints(all []Checkpoint) {
	slices.SortStableFunc(all, func(a, b Checkpoint) int { return int(min(max(a.Position-b.Position, -1), 1)) })
}

// Thin returns at most n of the checkpoints of one chain, evenly spaced, and always includes the newest. A comparison with fewer
// checkpoints finds the same changes, because the links between two checkpoints cover the records between them.
func Thin(all []Checkpoint, n int) []Checkpoint {
	if len(all) <= n {
		return all
	}
	few := make([]Checkpoint, n)
	for i := range few {
		few[i] = all[(i+1)*len(all)/n-1]
	}
	return few
}

// Check returns the checkpoints that key signed, and a finding for each of the other checkpoints.
func Check(all []Checkpoint, key ed25519.PublicKey) (good []Checkpoint, bad []Finding) {
	for _, c := range all {
		if c.genuine(key) {
			good = append(good, c)
		} else {
			bad = append(bad, Finding{"SIGNATURE", c.Position, fmt.Sprintf("the checkpoint of record %d was not signed with the key", c.Position)})
		}
	}
	return good, bad
}
