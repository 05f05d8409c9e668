package config

import (
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/toold-dev/toold/setting"
)

// Settings lists the settings in the order of the fields of [Config]. For example, the setting listen.tcp is TOOLD_LISTEN_TCP in the
// environment and --listen-tcp on the command line. A list can only be set in the file.
var Settings = sync.OnceValue(func() []setting.Setting { return setting.Of(reflect.TypeFor[Config]()) })

func variable(s setting.Setting) string {
	return "TOOLD_" + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
}

func flagName(s setting.Setting) string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(s.Key)
}

// Changed lists the settings whose values differ between two configurations.
func Changed(before, after *Config) (changed []setting.Setting) {
	for _, s := range Settings() {
		if !reflect.DeepEqual(s.In(reflect.ValueOf(*before)).Interface(), s.In(reflect.ValueOf(*after)).Interface()) {
			changed = append(changed, s)
		}
	}
	return changed
}

// AddFlags adds a flag for every setting that is not a list. The flags have no default values. If a flag is not given, the value comes from
// the environment, the file or the default of the setting.
func AddFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "configuration file (TOOLD_CONFIG)")
	for _, s := range Settings() {
		help := s.Tag.Get("help")
		if text := s.Tag.Get("default"); text != "" {
			help += " (default " + text + ")"
		}
		switch {
		case s.IsList():
		case s.Type.Kind() == reflect.Bool:
			flags.Bool(flagName(s), false, help)
		default:
			flags.Var(&textValue{kind: kindOf(s.Type)}, flagName(s), help)
		}
	}
}

// textValue keeps the text of a flag. Load parses it together with the other sources, so that all sources give the same errors.
type textValue struct{ text, kind string }

func (v *textValue) String() string        { return v.text }
func (v *textValue) Set(text string) error { v.text = text; return nil }
func (v *textValue) Type() string          { return v.kind }

// kindOf returns the word that help texts use for values of a type.
func kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64, t.Kind() == reflect.Float64:
		return "number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	default:
		return "string"
	}
}

// nearest returns the candidate that the user probably meant: one that differs by few typing errors, or one with the same last part. It
// returns "" when there is none.
func nearest(name string, candidates []string) string {
	best, least := "", len(name)/4+2
	for _, c := range candidates {
		if d := distance(name, c); d < least {
			best, least = c, d
		}
	}
	if best != "" {
		return best
	}
	for _, c := range candidates {
		if lastPart(c) == lastPart(name) {
			return c
		}
	}
	return ""
}

func lastPart(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// distance returns the number of edits that turn a into b. An edit adds, removes or changes a letter, or swaps two neighbours.
func distance(a, b string) int {
	before, row := []int(nil), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			change := row[j]
			if a[i] != b[j] {
				change++
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, change)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
