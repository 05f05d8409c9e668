package cli

import (
	"strings"
	"testing"
)

// TestAdviceNamesTheProgram checks that suggested commands begin with the path that started the program, because its name alone may not be
// in PATH.
func TestAdviceNamesTheProgram(t *testing.T) {
	s := &script{waiting: nil}
	dir := s.start(t)
	for name, want := range map[string]string{
		"": "; toold inbox", "toold": "; toold inbox", "other": "; toold inbox", "bin/toold": "; bin/toold inbox", "./it's/to old": `; './it'\''s/to old' inbox`,
	} {
		(&run{name: name}).do(t, dir, "inbox", "nothing").expect(t, ExitNotFound, "", want)
	}
	s.waiting = append(s.waiting, waitingCall("abc"))
	if r := (&run{name: "bin/toold"}).do(t, dir, "inbox"); !strings.Contains(r.out, "  bin/toold a") {
		t.Errorf("the inbox says %s", r.out)
	}
}
