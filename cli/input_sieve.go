package cli

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A sieve reads what a call prints as a terminal does. Of what was printed before somebody looked it lets through text and the
// sequences of which it is known that no terminal answers them, each when it is whole: an answer would be typed into the call, where
// nobody waits for it any more. It notes which modes are set, to undo what a call leaves behind.
type sieve struct {
	modes modes
	live  bool // what comes is printed now, and goes through as it is

	in    sieveState
	held  []byte // of the sequence that has begun
	long  bool   // that it is longer than what is let through
	kind  rune   // of a string: ] of OSC
	runed []byte // the beginning of a character
	out   []byte
}

type sieveState int

const (
	inText sieveState = iota
	inEscape
	inCSI
	inString
	inStringEscape
)

// mostHeld is how long a sequence may be that is let through: a title, or the address of a link.
const mostHeld = 4 << 10

const (
	esc = 0x1b
	bel = 0x07
)

// show returns what of a piece of output is written to the terminal. A sequence that began in the past is of the past.
func (s *sieve) show(b []byte, live bool) []byte {
	s.out = nil
	for i, c := range b {
		if live && !s.live && s.rests() {
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

// leave is what ends a sequence that has begun, and undoes what the call leaves behind.
func (s *sieve) leave() string {
	if s.live && s.in != inText {
		return "\x1b\\" + s.modes.undo()
	}
	return s.modes.undo()
}

// rests reports whether no sequence and no character has begun.
func (s *sieve) rests() bool { return s.in == inText && len(s.runed) == 0 }

func (s *sieve) byte(c byte) {
	s.runed = append(s.runed, c)
	for len(s.runed) > 0 && utf8.FullRune(s.runed) {
		r, n := utf8.DecodeRune(s.runed) // what is no UTF-8 is shown as a replacement, as the terminal would
		s.runed = s.runed[n:]
		s.take(r)
	}
}

func (s *sieve) emit(r rune) {
	if !s.live {
		s.out = utf8.AppendRune(s.out, r)
	}
}

func (s *sieve) begin(state sieveState, kind rune) {
	s.in, s.kind, s.held, s.long = state, kind, s.held[:0], false
}

// take takes a character in.
func (s *sieve) take(r rune) {
	switch {
	case s.in == inString && r != esc && r != 0x18 && r != 0x1a:
		s.ofString(r)
	case s.in == inStringEscape && r == '\\':
		s.endString("\x1b\\")
	case r == esc && s.in == inString:
		s.in = inStringEscape
	case r == esc:
		s.begin(inEscape, 0)
	case r == 0x18 || r == 0x1a: // breaks what has begun off
		s.in = inText
	case r < 0x20:
		s.control(r)
	case r >= 0x80 && r < 0xa0:
		s.in = inText
		s.c1(r)
	case s.in == inStringEscape: // no end: the string is broken off
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

// control does at once what a control character says, also within a sequence.
func (s *sieve) control(r rune) {
	if r >= bel && r <= 0x0f { // none asks, such as ENQ
		s.emit(r)
	}
}

// c1 is a control character that means ESC and another one.
func (s *sieve) c1(r rune) {
	s.begin(inEscape, 0)
	s.ofEscape(r - 0x40)
}

func (s *sieve) ofEscape(r rune) {
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

// plainEscape reports whether an escape only changes what is seen.
func plainEscape(between string, final rune) bool {
	switch between {
	case "":
		return strings.ContainsRune("6789=>DEHMNOcno|}~", final)
	case "(", ")", "*", "+":
		return strings.ContainsRune("0AB<", final) // sets of characters
	case "#":
		return strings.ContainsRune("34568", final)
	}
	return false
}

func (s *sieve) hold(r rune) {
	if s.long = s.long || len(s.held) >= mostHeld; !s.long {
		s.held = utf8.AppendRune(s.held, r)
	}
}

func (s *sieve) ofCSI(r rune) {
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

// csi lets a control sequence through that is not answered.
func (s *sieve) csi(held string, final rune) {
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

// plainFinals are the ends of the control sequences that only change what is seen, or what keys and the mouse send. What is not
// here may be a question: of the cursor's place, the terminal's name, its modes, colours, sizes, its title, what stands on it.
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

// setModes sets the modes in which a terminal reports nothing by itself: its size, its colours, whether it is looked at. Without them
// a program gets less; 2 is another language.
func (s *sieve) setModes(prefix, numbers string, final rune) {
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

func (s *sieve) whole(sequence string) {
	if !s.live {
		s.out = append(s.out, sequence...)
	}
}

func (s *sieve) ofString(r rune) {
	switch {
	case r == bel && s.kind == ']':
		s.endString("\a")
	case r == 0x9c:
		s.endString("\x1b\\")
	case r < 0x20 || r >= 0x7f && r < 0xa0:
		s.long = true // no text
	default:
		s.hold(r)
	}
}

// endString lets a title, a link and colours through.
func (s *sieve) endString(end string) {
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
	case n == 4, n == 5, n >= 10 && n <= 19, n == 104, n == 105, n >= 110 && n <= 119: // colours, which may be asked for
		if strings.Contains(rest, "?") {
			return
		}
	default:
		return
	}
	s.whole("\x1b]" + text + end)
}
