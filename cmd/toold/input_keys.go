package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// controlKey begins what is said to us and not to the call: ctrl-].
const controlKey = 0x1d

// A detacher finds ctrl-] d in what is typed. ctrl-] twice is that key once; before any other key it is typed as well.
type detacher struct{ begun bool }

// typed returns what goes to the call, and whether the person leaves; what was typed behind that is dropped.
func (d *detacher) typed(keys []byte) (send []byte, leave bool) {
	for _, k := range keys {
		switch {
		case d.begun && k == 'd':
			return send, true
		case d.begun:
			d.begun = false
			send = append(send, controlKey)
			if k != controlKey {
				send = append(send, k)
			}
		case k == controlKey:
			d.begun = true
		default:
			send = append(send, k)
		}
	}
	return send, false
}

// modes remembers which modes of the terminal a call has set, to undo what it leaves behind.
type modes struct {
	changes *regexp.Regexp
	changed map[string]bool
}

func newModes() modes {
	return modes{changes: regexp.MustCompile(`\x1b\[\?([0-9;]+)([hl])`), changed: map[string]bool{}}
}

// usual says of the modes that matter to a shell whether they are on.
func usual() map[string]bool {
	return map[string]bool{
		"7": true, "25": true, // lines wrap, the cursor is seen
		"1": false, "47": false, "1047": false, "1049": false, "1000": false, "1002": false, "1003": false, "1005": false, "1006": false, "1015": false, "2004": false,
	}
}

func (m *modes) see(b []byte) {
	for _, found := range m.changes.FindAllSubmatch(b, -1) {
		for mode := range strings.SplitSeq(string(found[1]), ";") {
			m.changed[mode] = string(found[2]) == "h"
		}
	}
}

// undo is what makes the terminal as a shell wants it.
func (m *modes) undo() string {
	text := ""
	known := usual()
	for _, mode := range slices.Sorted(maps.Keys(m.changed)) {
		switch on, is := known[mode]; {
		case !is || m.changed[mode] == on:
		case on:
			text += "\x1b[?" + mode + "h"
		default:
			text += "\x1b[?" + mode + "l"
		}
	}
	return text + "\x1b[0m"
}
