package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// controlKey is ctrl-]. It starts a command to this program; the key after it is not sent to the call.
const controlKey = 0x1d

// A detacher finds ctrl-] d in typed input. Two ctrl-] in a row send one ctrl-] to the call. When any other key follows ctrl-], the
// detacher sends both keys.
type detacher struct{ begun bool }

// typed returns the keys to send to the call, and whether the user detaches. It drops the keys after a detach.
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

// modes records which terminal modes a call has changed, so that they can be undone after it.
type modes struct {
	changed map[string]bool
	pushed  int  // keyboard protocols that the call has pushed on the terminal's stack
	keys    bool // the call set keyboard flags directly, without the stack
	others  bool // the call set xterm key modifier options
}

// usual returns the value that a shell expects for each terminal mode that matters to it.
func usual() map[string]bool {
	return map[string]bool{
		"7": true, "25": true, // line wrapping and a visible cursor
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

// keyboard records a change of the keyboard protocol. A shell needs the default protocol to be usable.
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

// undo returns the sequences that restore the modes a shell expects.
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
