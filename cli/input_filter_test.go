package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// questions are sequences that a terminal answers as if the user had typed the answer.
func questions() []string {
	return []string{
		"\x05", "\x1bZ", "\u009a", "\x1b[c", "\x1b[0c", "\x1b[>c", "\x1b[>0c", "\x1b[=c", "\u009bc", "\x1b[?1;2c", // terminal name
		"\x1b[5n", "\x1b[6n", "\x1b[?6n", "\x1b[?996n", "\x1b[?15n", "\u009b6n", "\x1b[x", "\x1b[1x", // cursor position and state
		"\x1b[>q", "\x1b[>0q", "\x1b[?25$p", "\x1b[4$p", "\x1b[1$u", "\x1b[2$w", "\x1b[&u", "\x1b[\"v", "\x1b[1+p", "\x1b[1;1;1;1;1;1*y", "\x1b['|",
		"\x1b[?u", "\x1b[?4m", "\x1b[?1;1;0S", "\x1b[#R", "\x1b[1;1;2;2#|", "\x1b[18t", "\x1b[21t", "\x1b[14t", // keyboard state, sizes, titles
		"\x1b]4;1;?\a", "\x1b]10;?\x1b\\", "\x1b]11;?\u009c", "\x1b]5;0;?\a", "\x1b]52;c;?\a", "\x1b]52;c;?\x1b\\", "\x1b]60\a", "\x1b]22;?\x1b\\", "\x1b]21;foreground=?\a",
		"\x1b]50;?\a", "\x1b]1337;ReportCellSize\a", "\x1b]99;i=1:p=?;\x1b\\", "\u009d52;c;?\u009c", "\x1b]4;2;rgb:0/0/0;1;?\a",
		"\x1bP$qm\x1b\\", "\x1bP+q544e\x1b\\", "\x1bP+Q50\x1b\\", "\u0090$qm\u009c", "\x1bPtmux;\x1b\x1b[6n\x1b\\", "\x1b_Gi=1,a=q;AAAA\x1b\\", "\x1b^x\x1b\\", "\x1bXx\x1b\\",
		"\x1b[?1004h", "\x1b[?2048h", "\x1b[?2031h", "\x1b[?2l", // modes that make the terminal send reports, or parse sequences differently
		"\x1b[\x1b[6n", "\x1b]0;x\x1b[6n", "\x1b[6\x00n", "\x1b%@", "\x1b[5i", "\x1b[?5;6\x7fn",
	}
}

// TestInputShowsThePastWithoutItsQuestions checks that old output keeps its text and display sequences but no queries, wherever it is
// split.
func TestInputShowsThePastWithoutItsQuestions(t *testing.T) {
	t.Parallel()
	for _, seen := range []string{
		"plain é 世 \r\n\t\b", "\x1b[1;31mred\x1b[0m", "\x1b[2J\x1b[H\x1b[10;20H", "\x1b[?1049h\x1b[?25l\x1b[?1000;1006h", "\x1b]0;a title?\a", "\x1b]2;title\x1b\\",
		"\x1b]8;;https://a.example/?b=c\x1b\\link\x1b]8;;\x1b\\", "\x1b(0lqk\x1b(B", "\x1b7\x1b8\x1b=\x1b>\x1bM\x1bc", "\x1b[3 q\x1b[!p", "\x1b[>4;2m\x1b[>1u\x1b[<u", "\x1b[38:2::1:2:3m", "\x1b]11;#000000\a",
	} {
		for _, q := range append(questions(), "") {
			whole := seen + q + seen
			for cut := range len(whole) + 1 {
				var s outputFilter
				got := string(s.show([]byte(whole[:cut]), false)) + string(s.show([]byte(whole[cut:]), false))
				if got != seen+seen {
					t.Fatalf("%q cut at %d: shown %q", whole, cut, got)
				}
			}
		}
	}
}

// TestInputShowsThePresentAsItIs checks that current output passes unchanged, except a sequence that began in old output.
func TestInputShowsThePresentAsItIs(t *testing.T) {
	t.Parallel()
	for _, q := range questions() {
		if strings.HasPrefix(q, "\x1b]0;x") || strings.HasPrefix(q, "\x1b[\x1b") || strings.HasPrefix(q, "\x1bPtmux") {
			continue // q consists of two sequences
		}
		for cut := range len(q) {
			var s outputFilter
			got := string(s.show([]byte("a"+q[:cut]), false)) + string(s.show([]byte(q[cut:]+q+"\xff\x9bb"), true))
			want := "a" + q + "\xff\x9bb"
			if cut == 0 {
				want = "a" + q + q + "\xff\x9bb"
			}
			if got != want {
				t.Fatalf("%q cut at %d: shown %q, want %q", q, cut, got, want)
			}
		}
	}
}

// TestInputUndoesModes checks that the modes that a call leaves set are undone, even when the sequence arrived in two pieces.
func TestInputUndoesModes(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{false, true} {
		const text = "\x1b[?1049;1006h\x1b[?25l\x1b[?2004h\x1b[?2004l\x1b[>1u\x1b[>4;2m\x1b[?12h"
		for cut := range len(text) {
			var s outputFilter
			s.show([]byte(text[:cut]), live)
			s.show([]byte(text[cut:]), live)
			if got, want := s.leave(), "\x1b[<1u\x1b[>4m\x1b[?1006l\x1b[?1049l\x1b[?25h\x1b[0m"; got != want {
				t.Fatalf("cut at %d: %q, want %q", cut, got, want)
			}
		}
	}
	var s outputFilter
	s.show([]byte("\x1b[?1004h\x1b]0;broken"), true)
	if got, want := s.leave(), "\x1b\\\x1b[?1004l\x1b[0m"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// answered matches the sequences that must not reach a terminal in filtered output.
func answered() *regexp.Regexp {
	return regexp.MustCompile(`\x05|[\x{80}-\x{9f}]|\x1b(?:[PX^_kZ]|%|\[[0-?]*(?:[cnxit]|\$[pwuy]|&.|\+.|\*y|#[RS|]|'[w-|])|\[[>?=<][0-?]*[cnqStx]|\[\?[0-?]*[um]|\[\?(?:[0-9]+;)*0*(?:2|1004|2031|2048)[;hl]|\](?:52|5522|60|21|22|50|99|1337)|\][0-9]*;[^\x07\x1b]*;?\?\x07)`)
}

func FuzzInputShowsNoQuestion(f *testing.F) {
	for _, q := range questions() {
		f.Add([]byte("a"+q+"b"+q), uint16(len(q)))
	}
	f.Add([]byte("\x1b]0;what?\a\xe4\x9b\x1b[6n"), uint16(3))
	f.Add([]byte("\x1b]00;t?\a"), uint16(3)) // a title number with leading zeros
	re := answered()
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		var whole, apart outputFilter
		want := bytes.Clone(whole.show(b, false))
		at := min(int(cut), len(b))
		got := bytes.Clone(apart.show(b[:at], false))
		got = append(got, apart.show(b[at:], false)...)
		if !bytes.Equal(got, want) {
			t.Errorf("in one piece %q, in two %q", want, got)
		}
		titles := regexp.MustCompile(`\x1b\]0*[0128];[^\x07\x1b]*`)
		if !utf8.Valid(want) || re.Match(titles.ReplaceAll(want, nil)) {
			t.Errorf("shown of %q: %q", b, want)
		}
	})
}
