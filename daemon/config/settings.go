package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// A setting is one leaf of Config: listen.tcp in the file is TOOLD_LISTEN_TCP in the environment and --listen-tcp on the
// command line. Lists stand in the file only.
type setting struct {
	key string
	typ reflect.Type
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	timeType     = reflect.TypeFor[time.Time]()
)

// settings lists the leaves of Config in the order of its fields.
func settings() []setting {
	var found []setting
	var walk func(t reflect.Type, prefix string)
	walk = func(t reflect.Type, prefix string) {
		for i := range t.NumField() {
			field := t.Field(i)
			key := field.Tag.Get("koanf")
			if key == "" || key == "-" {
				continue
			}
			if field.Type.Kind() == reflect.Struct {
				walk(field.Type, prefix+key+".")
				continue
			}
			found = append(found, setting{prefix + key, field.Type})
		}
	}
	walk(reflect.TypeFor[Config](), "")
	return found
}

// isList reports whether a setting has many values, which stand in the file only.
func (s setting) isList() bool { return s.typ.Kind() == reflect.Slice || s.typ.Kind() == reflect.Map }

func (s setting) variable() string {
	return "TOOLD_" + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

func (s setting) flag() string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(s.key)
}

// parse reads the text of a flag or an environment variable.
func (s setting) parse(text string) (any, error) {
	switch {
	case s.typ == durationType:
		return parseDuration(text)
	case s.typ.Kind() == reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", text)
		}
		return n, nil
	case s.typ.Kind() == reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number such as 0.1", text)
		}
		return f, nil
	case s.typ.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither true nor false", text)
		}
		return b, nil
	default:
		return text, nil
	}
}

// never is a duration without end.
const never = time.Duration(-1)

// parseDuration reads a duration as Go writes it; d is a day, never has no end.
func parseDuration(text string) (time.Duration, error) {
	if text == "never" {
		return never, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 30s, 10m, 12h or 7d", text)
	}
	return d, nil
}

// usageOf is the help text of a setting's flag.
func usageOf(key string) string {
	if usage := usages[key]; usage != "" {
		return usage
	}
	return usageOfPlugin(key)
}

var usages = map[string]string{
	"data":                          "directory of the store",
	"store":                         "postgres:// URL; empty is SQLite in data",
	"workspace":                     "what the file tools see and where bash starts",
	"listen.tcp":                    "host:port for clients; port 0 is a free one, empty is none",
	"listen.unix":                   "path of the socket for clients; empty is none",
	"tls.cert":                      "PEM certificate of the TCP listener",
	"tls.key":                       "PEM key of the certificate",
	"tls.client_ca":                 "PEM certificates that sign those of clients",
	"rules":                         "file of permission rules",
	"single_user":                   "replace four eyes by a typed confirmation",
	"limits.concurrency":            "calls that run at once",
	"limits.queue_length":           "calls that wait for a place",
	"limits.arguments":              "bytes of a call's arguments",
	"limits.output_budget":          "bytes that a result keeps of output",
	"limits.output_quota":           "bytes that a call may print, report and save",
	"limits.watchers":               "streams that watch at once",
	"limits.watchers_each":          "streams that one principal watches at once",
	"limits.concurrency_namespace":  "calls of one namespace that run at once; 0 is off",
	"limits.concurrency_principal":  "calls of one principal that run at once; 0 is off",
	"limits.queue_namespace":        "calls of one namespace that wait; 0 is three quarters",
	"limits.queue_principal":        "calls of one principal that wait; 0 is half",
	"limits.questions_namespace":    "open questions of one namespace; 0 is off",
	"limits.questions_principal":    "open questions of one principal; 0 is off",
	"limits.stored_bytes":           "that one namespace may have in all; 0 is off",
	"limits.output_quota_thread":    "bytes of output that one thread keeps; 0 is off",
	"limits.output_quota_namespace": "bytes of output that one namespace keeps; 0 is off",
	"limits.circuit_failures":       "upstream failures in a row that open the circuit of a source; 0 is off",
	"limits.circuit_open":           "for which such a source is not asked",
	"documents.size":                "bytes of a document",
	"documents.count":               "documents of a run, thread or namespace",
	"documents.total":               "bytes of these together",
	"timeouts.queue":                "for which a call waits for a place",
	"timeouts.attempt":              "from intent to result",
	"timeouts.linger":               "for which a call runs unwatched, or never",
	"timeouts.grace":                "for a tool to heed its cancellation",
	"timeouts.expiry":               "of tickets that say nothing else",
	"timeouts.drain":                "for running calls when the daemon stops",
	"timeouts.stall":                "for which a client may take nothing from a stream",
	"retention.calls":               "for which ended calls are kept",
	"retention.tombstones":          "for which their ids are kept",
	"failover.start":                "age of the proof that the store is this daemon's, at most, when an effect starts",
	"failover.lease":                "from the last such proof to the end of the daemon",
	"failover.kill":                 "for the end of what runs then",
	"failover.hold":                 "for which the next daemon leaves its attempts alone",
	"tools.assert_formats":          "whether formats count in schemas of 2020-12",
	"log.level":                     "debug, info, warn or error",
	"log.format":                    "json or console; empty is console on a terminal",
	"bash.timeout":                  "longest time of a command",
	"bash.profile":                  "how commands are isolated: default, readonly, network, landlock, none, or one of sandbox.profiles",
	"sandbox.control_group":         "directory of a cgroup v2 for those of commands; empty: what is delegated to the daemon",
	"sandbox.homes":                 "directory of the home directories of processes; empty: homes in the data directory",
	"bash.background_each":          "commands of a thread that run in the background; 0 is none",
	"bash.background_time":          "longest time of one of them",
	"workers.lease":                 "for which a worker may be silent",
	"workers.wait":                  "for which a call waits for a worker",
	"workers.each":                  "workers of one namespace at once",
	"metrics.listen":                "host:port for Prometheus; empty is none",
	"metrics.public":                "show the numbers to other machines too",
	"tracing.ratio":                 "share of calls to trace, 0 to 1; 0 is off",
	"tracing.endpoint":              "URL of the OTLP receiver; empty is what OTEL_EXPORTER_OTLP_ENDPOINT says",
}

// usageOfPlugin is usageOf for the settings of plugins and of tools that reach out.
func usageOfPlugin(key string) string {
	return map[string]string{
		"redact.tokens":       "take well-known tokens out of all that calls tell",
		"audit.enabled":       "keep a chain of audit records",
		"audit.checkpoints":   "file of its signed checkpoints; empty is one in the data directory",
		"audit.every":         "time between two of them",
		"loopguard.repeats":   "calls of a run that may be alike among the last ones; 0 is off",
		"loopguard.window":    "how many the last ones are",
		"loopguard.calls":     "calls that a run may make; 0 is off",
		"loopguard.failures":  "failures of a tool in a row; 0 is off",
		"loopguard.idle":      "after which a run is forgotten",
		"loopguard.runs":      "runs that are remembered",
		"cache.entries":       "results that are kept",
		"cache.bytes":         "that they take",
		"command.directory":   "directory of manifests; empty is none",
		"web.fetch":           "the tool fetch is there",
		"web.timeout":         "of a fetch or a search",
		"web.max_bytes":       "bytes of a page, unpacked",
		"web.search":          "brave or searxng; empty is no web_search",
		"web.search_url":      "of the search engine; empty is brave's own",
		"web.search_key":      "secret://name of the key of the search engine",
		"web.search_key_file": "file of the key of the search engine",
		"compact.from":        "bytes of a message from which it is made compact",
	}[key]
}

// AddFlags adds a flag for every setting that is no list. The flags have no defaults: what was not said comes from the
// environment, the file or [defaults].
func AddFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "configuration file (TOOLD_CONFIG)")
	base := Values(defaults())
	for _, s := range settings() {
		if s.isList() {
			continue
		}
		usage := usageOf(s.key)
		if value := plain(base[s.key]); value != "" && s.typ.Kind() != reflect.Bool {
			usage += " (default " + value + ")"
		}
		if s.typ.Kind() == reflect.Bool {
			flags.Bool(s.flag(), false, usage)
		} else {
			flags.Var(&textValue{kind: kindOf(s.typ)}, s.flag(), usage)
		}
	}
}

// textValue is a flag whose text is read with the other sources, so that all of them answer alike.
type textValue struct{ text, kind string }

func (v *textValue) String() string        { return v.text }
func (v *textValue) Set(text string) error { v.text = text; return nil }
func (v *textValue) Type() string          { return v.kind }

func kindOf(t reflect.Type) string {
	switch {
	case t == durationType:
		return "duration"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Float64:
		return "number"
	default:
		return "string"
	}
}

// Values returns the values of the leaves by key.
func Values(c Config) map[string]any {
	values := map[string]any{}
	for _, s := range settings() {
		v := reflect.ValueOf(c)
		for part := range strings.SplitSeq(s.key, ".") {
			v = fieldOf(v, part)
		}
		values[s.key] = v.Interface()
	}
	return values
}

func fieldOf(v reflect.Value, key string) reflect.Value {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("koanf") == key {
			return v.Field(i)
		}
	}
	return reflect.Value{}
}

// plain is a value as the file would have it.
func plain(v any) string {
	switch v := v.(type) {
	case time.Duration:
		return durationText(v)
	case string:
		return v
	default:
		return fmt.Sprint(v)
	}
}

// durationText is the shortest form that parseDuration reads.
func durationText(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "never"
	case d > 0 && d%day == 0:
		return strconv.Itoa(int(d/day)) + "d"
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}

// nearest returns the candidate that was probably meant: few typing errors away, or with the same last part. Empty is none.
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

// distance counts the letters to add, drop, change or swap with their neighbour to get from a to b.
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
