package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/toold-dev/toold/tool"
)

type listData struct {
	Path      string      `json:"path"`
	Entries   []listEntry `json:"entries"`
	Total     int         `json:"total"`
	Truncated bool        `json:"truncated"`
}

type listEntry struct {
	Name string `json:"name"`
	Type string `json:"type"` // file, directory, link or other
}

// list lists the entries of a directory by name.
func (t *read) list(ctx context.Context, p resolvedPath, dir File, w window) (*tool.Result, error) {
	entries, whole, err := entriesOf(ctx, dir, t.limits.Entries)
	if err != nil {
		return nil, explain(p.path, err)
	}
	if w.first > 1 && w.first > len(entries) {
		return nil, refuse(reasonBeyondEnd, "%s has %d entries; offset %d is after the last entry.", quote(p.path), len(entries), w.first)
	}
	data := listData{Path: exact(p.path), Entries: []listEntry{}, Total: len(entries)}
	var text strings.Builder
	for _, e := range entries[min(w.first-1, len(entries)):] {
		if len(data.Entries) == w.count || text.Len() > textBudget {
			break
		}
		kind, mark := "other", "?"
		switch {
		case e.IsDir():
			kind, mark = "directory", "/"
		case e.Type().IsRegular():
			kind, mark = "file", ""
		case e.Type()&fs.ModeSymlink != 0:
			kind, mark = "link", "@"
		}
		data.Entries = append(data.Entries, listEntry{exact(e.Name()), kind})
		text.WriteString(quote(e.Name()) + mark + "\n")
	}
	data.Truncated = !whole || len(data.Entries) < len(entries)
	return success(data, listMessage(p, data, w, text.String(), whole)), nil
}

func listMessage(p resolvedPath, data listData, w window, text string, whole bool) string {
	if data.Total == 0 && whole {
		return fmt.Sprintf("%s is an empty directory.", quote(p.path))
	}
	text = fmt.Sprintf("Directory %s (/ directory, @ symbolic link, ? other):\n", quote(p.path)) + text
	if data.Truncated {
		last := w.first + len(data.Entries) - 1
		text += fmt.Sprintf("[Entries %d to %d of %d", w.first, last, data.Total)
		if !whole {
			text += " or more"
		}
		text += fmt.Sprintf(". Use offset %d to continue.]", last+1)
	}
	return text
}

// entriesOf returns the entries of a directory, sorted by name. The parameter most limits their number. The second result reports whether
// these are all entries.
func entriesOf(ctx context.Context, dir File, most int) ([]fs.DirEntry, bool, error) {
	var all []fs.DirEntry
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		batch, err := dir.ReadDir(max(1, min(1024, most+1-len(all))))
		all = append(all, batch...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false, err
		}
		if len(all) > most {
			break
		}
	}
	whole := len(all) <= most
	all = slices.DeleteFunc(all, func(e fs.DirEntry) bool { return isTemp(e.Name()) })
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return all[:min(most, len(all))], whole, nil
}
