package setting

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/toold-dev/toold/tool"
)

// A Problem is an error in one setting.
type Problem struct {
	Key  string // key of the setting, such as limits.arguments or hooks[0].kinds[1]
	Text string
}

func (p *Problem) Error() string { return p.Key + ": " + p.Text }

// Problems is a list of problems. [Problems.Err] converts it to an error.
type Problems []*Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Err returns the problems, or nil when there are none.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Add adds a problem.
func (p *Problems) Add(key, format string, args ...any) {
	*p = append(*p, &Problem{key, fmt.Sprintf(format, args...)})
}

// Formats contains the check for each value of the tag format. The errors do not quote texts that may contain a secret.
var Formats = map[string]func(text string) error{
	"name": func(text string) error {
		return unless(name.MatchString(text), "%q is not a name: letters, digits, - and _, at most 64", text)
	},
	"id": func(text string) error {
		return unless(name.MatchString(text) && text[0] != '-' && (text[0] < '0' || text[0] > '9'),
			"%q is not a name: letters, digits, - and _, at most 64, not beginning with a digit or -", text)
	},
	"group": func(text string) error {
		return unless(len(text) <= 256 && strings.TrimSpace(text) == text && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0,
			"%q is not the name of a group: at most 256 printable characters, without spaces around them", text)
	},
	"glob": func(text string) error {
		return unless(tool.ValidGlob(text) && text != "", "%q is not a pattern of *, ? and [classes]", text)
	},
	"regexp":   func(text string) error { _, err := regexp.Compile(text); return err },
	"absolute": func(text string) error { return unless(filepath.IsAbs(text), "%q is not an absolute path", text) },
	"address":  checkAddress,
	"environment": func(text string) error {
		return unless(isVariable(text) && strings.Contains(text, "="), "is not NAME=value")
	},
	"variable": func(text string) error {
		return unless(isVariable(text), "is not NAME=value, or NAME for the daemon's own")
	},
	"reference": func(text string) error {
		return unless(reference.MatchString(text), "is not a reference such as secret://name; a configuration must not contain the value itself")
	},
}

var (
	name      = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	reference = regexp.MustCompile(`^secret://[a-zA-Z0-9_-]{1,64}$`)
)

// Given counts the non-empty texts.
func Given(texts ...string) (n int) {
	for _, text := range texts {
		if text != "" {
			n++
		}
	}
	return n
}

func unless(good bool, format string, args ...any) error {
	if good {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func isVariable(text string) bool {
	name, _, _ := strings.Cut(text, "=")
	return name != "" && !strings.ContainsRune(text, 0)
}

func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("%q is not host:port", text)
	}
	if _, err := netip.ParseAddrPort("127.0.0.1:" + port); err != nil {
		return fmt.Errorf("%q has no port between 0 and 65535", text)
	}
	return nil
}

// A Checker is a group, or an element of a list, with rules that tags cannot express, such as which settings may be used together. Check is
// called after the tags were checked, even when these checks found problems. It returns problems with keys relative to the group.
type Checker interface{ Check() Problems }

// Check returns all problems in the settings of a struct: violations of the tags, then the problems that each [Checker] in it returns.
func Check(v any) Problems {
	var c checker
	c.group(reflect.Indirect(reflect.ValueOf(v)), "")
	return c.Problems
}

type checker struct{ Problems }

func (c *checker) group(v reflect.Value, prefix string) {
	for _, s := range Of(v.Type()) {
		c.setting(s, s.In(v), prefix+s.Key)
	}
	c.ask(v, prefix)
}

// ask calls the Checkers of a group and of its inner groups.
func (c *checker) ask(v reflect.Value, prefix string) {
	own := reflect.New(v.Type())
	own.Elem().Set(v)
	if checker, ok := own.Interface().(Checker); ok {
		for _, p := range checker.Check() {
			c.Add(strings.TrimSuffix(prefix+p.Key, "."), "%s", p.Text)
		}
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Tag.Get("yaml") != "" && IsGroup(f.Type) {
			c.ask(v.Field(i), prefix+f.Tag.Get("yaml")+".")
		}
	}
}

func (c *checker) setting(s Setting, v reflect.Value, key string) {
	if s.Tag.Get("required") != "" && (v.IsZero() || s.IsList() && v.Len() == 0) {
		c.Add(key, "is required: %s", s.Tag.Get("help"))
		return
	}
	if v.Kind() != reflect.Slice {
		c.value(s, v, key, "")
		return
	}
	seen := map[string]bool{}
	once := func(of Setting, v reflect.Value, key string) {
		text := of.Key + "=" + Text(v)
		if of.Tag.Get("unique") != "" && !v.IsZero() && seen[text] {
			c.Add(key, "%s is set twice", of.quote(v))
		}
		seen[text] = true
	}
	for i := range v.Len() {
		e := v.Index(i)
		if !IsGroup(e.Type()) {
			c.value(s, e, key, fmt.Sprintf("entry %d ", i+1))
			once(s, e, key)
			continue
		}
		at := fmt.Sprintf("%s[%d].", key, i)
		c.group(e, at)
		for _, of := range s.Elements() {
			if !of.IsList() { // A unique tag on a list is about the elements of that list, not about the list as a value.
				once(of, of.In(e), at+of.Key)
			}
		}
	}
}

// quote returns a value as messages show it. It does not show a secret.
func (s Setting) quote(v reflect.Value) string {
	if s.Tag.Get("secret") != "" {
		return "the same value"
	}
	return fmt.Sprintf("%q", Text(v))
}

// value checks a single value: a setting that is not a list, or one element of a list.
func (c *checker) value(s Setting, v reflect.Value, key, entry string) {
	switch {
	case v.CanInt() || v.CanFloat():
		c.number(s, v, key)
	case v.Kind() == reflect.String && v.String() != "":
		if choices := strings.Fields(s.Tag.Get("oneof")); len(choices) > 0 && !slices.Contains(choices, v.String()) {
			c.Add(key, "%q is not one of %s", v, strings.Join(choices, ", "))
		}
		if format, ok := Formats[s.Tag.Get("format")]; ok {
			if err := format(v.String()); err != nil && strings.HasPrefix(err.Error(), "is ") {
				c.Add(key, "%s%v", entry, err)
			} else if err != nil {
				c.Add(key, "%v", err)
			}
		}
	case v.Kind() == reflect.String && s.IsList() && s.Tag.Get("format") != "":
		c.Add(key, "%sis empty", entry)
	}
}

func (c *checker) number(s Setting, v reflect.Value, key string) {
	least, most := s.bound("min"), s.bound("max")
	switch {
	case v.Type() == durationType && v.Int() < 0 && least.Int() >= 0:
		c.Add(key, "must have a limit between %s and %s", Text(least), Text(most))
	case less(v, least) || less(most, v):
		c.Add(key, "%s is not between %s and %s", Text(v), Text(least), Text(most))
	}
}

// bound returns the parsed tag min or max of a number setting. Every number setting declares both tags. On a list they apply to each
// element.
func (s Setting) bound(tag string) reflect.Value {
	t := s.Type
	if s.IsList() {
		t = t.Elem()
	}
	v := reflect.New(t).Elem()
	if err := Parse(v, s.Tag.Get(tag)); err != nil {
		panic(s.Key + ": " + tag + ": " + err.Error())
	}
	return v
}

// less reports whether a is below b, or is NaN.
func less(a, b reflect.Value) bool {
	if a.CanInt() {
		return a.Int() < b.Int()
	}
	return !(a.Float() >= b.Float())
}
