package cli

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// An outputFilter parses a call's output as a terminal does. Output from before the user attached may contain queries. The terminal would
// answer them, and the answer would become input of the call, which no longer expects it. From such output the filter therefore passes only
// text and complete sequences that no terminal answers. It also records the modes that the output sets, so that they can be undone.
type outputFilter struct {
	modes modes
	live  bool // the output is current and passes unchanged

	in    parserState
	held  []byte // the sequence read so far
	long  bool   // the sequence is longer than mostHeld
	kind  rune   // the introducer of a string: ] for OSC
	runed []byte // the first bytes of an incomplete character
	out   []byte
}

type parserState int

const (
	inText parserState = iota
	inEscape
	inCSI
	inString
	inStringEscape
)

// mostHeld is the longest sequence that passes, in bytes. It is enough for a title or the address of a link.
const mostHeld = 4 << 10

const (
	esc = 0x1b
	bel = 0x07
)

// show returns the part of b to write to the terminal. live means that b is current output. A sequence that began in old output is filtered
// to its end.
func (s *outputFilter) show(b []byte, live bool) []byte {
	s.out = nil
	for i, c := range b {
		if live && !s.live && s.atBoundary() {
			past := s.out
			s.live = true
			return append(past, s.show(b[i:], true)...)
		}
		s.byte(c)
	}
	if s.live {
		return b
	}
	return s.out
}

// leave returns the sequences that end an unfinished sequence and undo the changed modes.
func (s *outputFilter) leave() string {
	if s.live && s.in != inText {
		return "\x1b\\" + s.modes.undo()
	}
	return s.modes.undo()
}

// atBoundary reports whether the parser is outside of any sequence and character.
func (s *outputFilter) atBoundary() bool { return s.in == inText && len(s.runed) == 0 }

func (s *outputFilter) byte(c byte) {
	s.runed = append(s.runed, c)
	for len(s.runed) > 0 && utf8.FullRune(s.runed) {
		r, n := utf8.DecodeRune(s.runed) // invalid UTF-8 becomes U+FFFD, as on a terminal
		s.runed = s.runed[n:]
		s.take(r)
	}
}

func (s *outputFilter) emit(r rune) {
	if !s.live {
		s.out = utf8.AppendRune(s.out, r)
	}
}

func (s *outputFilter) begin(state parserState, kind rune) {
	s.in, s.kind, s.held, s.long = state, kind, s.held[:0], false
}

// take processes one character.
func (s *outputFilter) take(r rune) {
	switch {
	case s.in == inString && r != esc && r != 0x18 && r != 0x1a:
		s.ofString(r)
	case s.in == inStringEscape && r == '\\':
		s.endString("\x1b\\")
	case r == esc && s.in == inString:
		s.in = inStringEscape
	case r == esc:
		s.begin(inEscape, 0)
	case r == 0x18 || r == 0x1a: // CAN and SUB abort the current sequence
		s.in = inText
	case r < 0x20:
		s.control(r)
	case r >= 0x80 && r < 0xa0:
		s.in = inText
		s.c1(r)
	case s.in == inStringEscape: // not a terminator: the string is aborted
		s.begin(inEscape, 0)
		s.ofEscape(r)
	case s.in == inEscape:
		s.ofEscape(r)
	case s.in == inCSI:
		s.ofCSI(r)
	case r != 0x7f:
		s.emit(r)
	}
}

// control handles a control character, also within a sequence.
func (s *outputFilter) control(r rune) {
	if r >= bel && r <= 0x0f { // these get no answer; ENQ (0x05) does
		s.emit(r)
	}
}

// c1 handles a C1 control character, which is equivalent to ESC and a second character.
func (s *outputFilter) c1(r rune) {
	s.begin(inEscape, 0)
	s.ofEscape(r - 0x40)
}

func (s *outputFilter) ofEscape(r rune) {
	switch {
	case r == 0x7f:
		return
	case r > 0x7f:
		s.in = inText
		s.emit(r)
		return
	case r < 0x30:
		s.hold(r)
		return
	}
	switch between := string(s.held); {
	case between == "" && r == '[':
		s.begin(inCSI, 0)
	case between == "" && strings.ContainsRune("]PX^_k", r):
		s.begin(inString, r)
	default:
		s.in = inText
		if !s.long && plainEscape(between, r) {
			s.whole("\x1b" + between + string(r))
		}
	}
}

// plainEscape reports whether an escape sequence only changes the display.
func plainEscape(between string, final rune) bool {
	switch between {
	case "":
		return strings.ContainsRune("6789=>DEHMNOcno|}~", final)
	case "(", ")", "*", "+":
		return strings.ContainsRune("0AB<", final) // character sets
	case "#":
		return strings.ContainsRune("34568", final)
	}
	return false
}

func (s *outputFilter) hold(r rune) {
	if s.long = s.long || len(s.held) >= mostHeld; !s.long {
		s.held = utf8.AppendRune(s.held, r)
	}
}

func (s *outputFilter) ofCSI(r rune) {
	switch {
	case r == 0x7f:
	case r > 0x7f:
		s.in = inText
		s.emit(r)
	case r < 0x40:
		s.hold(r)
	default:
		s.in = inText
		if !s.long {
			s.csi(string(s.held), r)
		}
	}
}

// csi passes a control sequence that the terminal does not answer.
func (s *outputFilter) csi(held string, final rune) {
	prefix := ""
	if held != "" && strings.ContainsAny(held[:1], "<=>?") {
		prefix, held = held[:1], held[1:]
	}
	numbers := strings.TrimRight(held, " !\"#$%&'()*+,-./")
	between := held[len(numbers):]
	if strings.Trim(numbers, "0123456789:;") != "" || !strings.ContainsRune(plainFinals(prefix, between), final) {
		return
	}
	if final == 'h' || final == 'l' {
		s.setModes(prefix, numbers, final)
		return
	}
	s.modes.keyboard(prefix, numbers, final)
	s.whole("\x1b[" + prefix + numbers + between + string(final))
}

// plainFinals returns the final bytes of control sequences that only change the display, or how keys and mouse are reported. Other
// sequences may be queries: cursor position, terminal name, modes, colours, sizes, title, screen content.
func plainFinals(prefix, between string) string {
	switch prefix + between {
	case "":
		return "@ABCDEFGHIJKLMPSTXZ`abdefghlmrsu"
	case "?":
		return "hlJK"
	case ">":
		return "mu"
	case "<", "=":
		return "u"
	case " ":
		return "q@A"
	case "!":
		return "p"
	case "\"":
		return "q"
	case "$":
		return "rtvxz{"
	case "'":
		return "}~"
	case "#":
		return "pq{}"
	}
	return ""
}

// setModes passes mode changes. From old output it removes the modes that make the terminal send reports: size (2048), colours (2031) and
// focus (1004). It also removes mode 2, which switches the terminal to VT52 sequences. A program works without these modes.
func (s *outputFilter) setModes(prefix, numbers string, final rune) {
	var kept []string
	for n := range strings.SplitSeq(numbers, ";") {
		mode, err := strconv.Atoi(n)
		tells := slices.Contains([]int{2, 1004, 2031, 2048}, mode) && !s.live
		if err != nil || mode > 1<<14 || tells || prefix == "" && mode != 4 && mode != 20 {
			continue
		}
		kept = append(kept, n)
		if prefix == "?" {
			s.modes.set(strconv.Itoa(mode), final == 'h')
		}
	}
	if len(kept) > 0 {
		s.whole("\x1b[" + prefix + strings.Join(kept, ";") + string(final))
	}
}

func (s *outputFilter) whole(sequence string) {
	if !s.live {
		s.out = append(s.out, sequence...)
	}
}

func (s *outputFilter) ofString(r rune) {
	switch {
	case r == bel && s.kind == ']':
		s.endString("\a")
	case r == 0x9c:
		s.endString("\x1b\\")
	case r < 0x20 || r >= 0x7f && r < 0xa0:
		s.long = true // not text: the string is dropped
	default:
		s.hold(r)
	}
}

// endString passes titles, links and colours.
func (s *outputFilter) endString(end string) {
	s.in = inText
	if s.kind != ']' || s.long {
		return
	}
	text := string(s.held)
	number, rest, _ := strings.Cut(text, ";")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 {
		return
	}
	switch {
	case n <= 2, n == 8:
	case n == 4, n == 5, n >= 10 && n <= 19, n == 104, n == 105, n >= 110 && n <= 119: // colours; a "?" makes it a query
		if strings.Contains(rest, "?") {
			return
		}
	default:
		return
	}
	s.whole("\x1b]" + text + end)
}
