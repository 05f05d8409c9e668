package shell

import "strings"

// checkSed accepts sed only with a script in its arguments that only prints, deletes lines from the output or replaces text. It rejects sed
// when it changes files or reads its script from a file.
func checkSed(args []word) string {
	scripts := 0
	for i := 0; i < len(args); i++ {
		w := args[i]
		if w.open {
			return doesMore
		}
		switch {
		case w.is("--"):
			return doesMore // A word after -- could be a script or a file, so it is rejected.
		case w.is("--quiet", "--silent", "--regexp-extended", "--null-data", "--separate", "--unbuffered", "--posix"):
		case strings.HasPrefix(w.value, "--expression="):
			if !isPlainSed(strings.TrimPrefix(w.value, "--expression=")) || !w.literal {
				return doesMore
			}
			scripts++
		case strings.HasPrefix(w.value, "--"):
			return doesMore
		case strings.HasPrefix(w.value, "-") && strings.Trim(w.value, "-nErzsu") == "" && w.value != "-":
		case strings.HasPrefix(w.value, "-") && strings.Trim(w.value, "-nErzsue") == "" && strings.HasSuffix(w.value, "e") && strings.Count(w.value, "e") == 1:
			if i++; i >= len(args) || !args[i].literal || !isPlainSed(args[i].value) {
				return doesMore
			}
			scripts++
		case strings.HasPrefix(w.value, "-") && w.value != "-":
			return doesMore
		case scripts == 0:
			if hasExpression(args[i:]) || !w.literal || !isPlainSed(w.value) {
				return doesMore
			}
			scripts++
		}
	}
	return ""
}

// hasExpression reports whether an option contains the script, so that the first operand is not the script.
func hasExpression(args []word) bool {
	for _, w := range args {
		if strings.HasPrefix(w.value, "-") && strings.ContainsAny(w.value, "ef") {
			return true
		}
	}
	return false
}

// isPlainSed reports whether a script contains only commands that print, delete lines from the output, or replace text.
func isPlainSed(script string) bool {
	s := sedScript(script)
	for {
		s.spaces()
		if s == "" {
			return true
		}
		if !s.address() {
			return false
		}
		if strings.HasPrefix(string(s), ",") {
			s = s[1:]
			if !s.address() {
				return false
			}
		}
		s.spaces()
		if !s.command() {
			return false
		}
	}
}

// A sedScript is the part of a sed script that has not been parsed yet.
type sedScript string

func (s *sedScript) spaces() { *s = sedScript(strings.TrimLeft(string(*s), " ;\n!")) }

func (s *sedScript) address() bool {
	text := string(*s)
	switch {
	case text == "":
		return false
	case text[0] == '$':
		*s = sedScript(text[1:])
	case text[0] == '/':
		return s.delimited('/')
	case text[0] == '\\':
		return false
	default:
		*s = sedScript(strings.TrimLeft(text, "0123456789~+"))
	}
	return true
}

// delimited parses a pattern up to the closing delimiter.
func (s *sedScript) delimited(d byte) bool {
	text := string(*s)
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '\n', '[': // Versions of sed differ in where a bracket expression ends, and in whether a delimiter inside it ends the pattern.
			if text[i] == '\n' || !classIsClear(text[i:], d) {
				return false
			}
		case d:
			*s = sedScript(text[i+1:])
			return true
		}
	}
	return false
}

// classIsClear reports whether all versions of sed read the bracket expression at the start of text alike: it contains no delimiter, no
// bracket and no backslash.
func classIsClear(text string, d byte) bool {
	end := strings.IndexByte(text[1:], ']')
	return end > 0 && strings.IndexByte(text[1:end+1], d) < 0 && !strings.ContainsAny(text[1:end+1], `[\`) && text[1] != '^' ||
		end > 1 && text[1] == '^' && strings.IndexByte(text[1:end+1], d) < 0 && !strings.ContainsAny(text[1:end+1], `[\`)
}

func (s *sedScript) command() bool {
	text := string(*s)
	if text == "" {
		return false
	}
	switch text[0] {
	case 'p', 'd', 'q', '=', 'P', 'D', 'n', 'N', 'g', 'G', 'h', 'H', 'x':
		rest := text[1:]
		if text[0] == 'q' {
			rest = strings.TrimLeft(rest, "0123456789")
		}
		*s = sedScript(rest)
		return strings.TrimLeft(rest, " ") == "" || strings.IndexByte(" ;\n", rest[0]) >= 0
	case 's', 'y':
		return s.replacement()
	}
	return false
}

// replacement parses s/a/b/. It returns false for flags that write to a file or run a command.
func (s *sedScript) replacement() bool {
	text := string(*s)
	if len(text) < 4 || strings.IndexByte("/|,#:@%!_", text[1]) < 0 {
		return false
	}
	d := text[1]
	*s = sedScript(text[1:])
	if !s.delimited(d) {
		return false
	}
	*s = sedScript(string(d) + string(*s)) // The delimiter that closes the first half also opens the second half, so it is added again.
	if !s.delimited(d) {
		return false
	}
	rest := strings.TrimLeft(string(*s), "gpiI0123456789")
	*s = sedScript(rest)
	return rest == "" || strings.IndexByte(" ;\n", rest[0]) >= 0
}

// checkAwk rejects awk programs that could write, run commands or connect to other machines. To be safe, it rejects every program that
// contains a pipe, a greater-than sign, an at sign, a backquote or one of a few words.
func checkAwk(args []word) string {
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case !w.literal && (w.open || strings.HasPrefix(w.value, "-")):
			return doesMore
		case w.is("-F", "-v"):
			i++
			if i < len(args) && !args[i].literal {
				return doesMore
			}
		case strings.HasPrefix(w.value, "-F"), strings.HasPrefix(w.value, "-v"):
		case strings.HasPrefix(w.value, "-"):
			return doesMore
		default:
			program := strings.ReplaceAll(w.value, "||", "")
			if !w.literal || strings.ContainsAny(program, "|>@`") {
				return doesMore
			}
			for _, name := range []string{"system", "getline", "close", "load", "extension", "ENVIRON", "ARGV"} {
				if strings.Contains(program, name) {
					return doesMore
				}
			}
			return checkAwkOperands(args[i+1:])
		}
	}
	return doesMore
}

// awkRuns reports whether an awk program may run commands, as far as its text shows.
func awkRuns(args []word) bool {
	for _, w := range args {
		text := strings.ReplaceAll(w.value, "||", "")
		if !w.literal || strings.ContainsAny(text, "|@") || strings.Contains(text, "system") || strings.Contains(text, "load") || strings.Contains(text, "extension") {
			return true
		}
	}
	return false
}

// checkAwkOperands rejects operands that awk could read as an option, because they begin with a dash or may begin with any character.
func checkAwkOperands(args []word) string {
	for _, w := range args {
		if w.open || strings.HasPrefix(w.value, "-") && w.value != "-" {
			return doesMore
		}
	}
	return ""
}
