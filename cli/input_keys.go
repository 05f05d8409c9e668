package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
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
	changed map[string]bool
	pushed  int  // ways to send keys that are on the terminal's stack
	keys    bool // others were chosen without it
	others  bool // as xterm has them
}

// usual says of the modes that matter to a shell whether they are on.
func usual() map[string]bool {
	return map[string]bool{
		"7": true, "25": true, // lines wrap, the cursor is seen
		"1": false, "5": false, "9": false, "47": false, "66": false, "1047": false, "1049": false, "1000": false, "1001": false, "1002": false, "1003": false, "1004": false,
		"1005": false, "1006": false, "1015": false, "1016": false, "2004": false, "2031": false, "2048": false,
	}
}

func (m *modes) set(mode string, on bool) {
	if _, known := usual()[mode]; !known {
		return
	}
	if m.changed == nil {
		m.changed = map[string]bool{}
	}
	m.changed[mode] = on
}

// keyboard notes how keys are to be sent from now on: with another way than the usual one no shell can be used.
func (m *modes) keyboard(prefix, numbers string, final rune) {
	n, err := strconv.Atoi(numbers)
	switch prefix + string(final) {
	case ">u":
		m.pushed++
	case "<u":
		if err != nil || n < 1 {
			n = 1
		}
		m.pushed = max(0, m.pushed-n)
	case "=u":
		m.keys = true
	case ">m":
		m.others = true
	}
}

// undo is what makes the terminal as a shell wants it.
func (m *modes) undo() string {
	text := ""
	if m.pushed > 0 {
		text += fmt.Sprintf("\x1b[<%du", m.pushed)
	}
	if m.keys {
		text += "\x1b[=0u"
	}
	if m.others {
		text += "\x1b[>4m"
	}
	known := usual()
	for _, mode := range slices.Sorted(maps.Keys(m.changed)) {
		switch on := known[mode]; {
		case m.changed[mode] == on:
		case on:
			text += "\x1b[?" + mode + "h"
		default:
			text += "\x1b[?" + mode + "l"
		}
	}
	return text + "\x1b[0m"
}
