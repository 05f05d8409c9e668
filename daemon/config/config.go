// Package config declares the settings of a daemon, reads them from flags, environment and file, and checks them.
//
// It opens no store and starts nothing: what it makes is a [Config] that holds together.
package config

import (
	"cmp"
	"path/filepath"
	"strings"
	"time"

	"github.com/toold-dev/toold/plugins/cache"
	"github.com/toold-dev/toold/plugins/compact"
	"github.com/toold-dev/toold/plugins/loopguard"
)

// Config is the configuration of a daemon. Its YAML file, the environment and the flags of serve name the same settings;
// the zero value of a field is what an empty or zero setting means, not the default ([defaults]).
type Config struct {
	Data       string        `koanf:"data"`        // directory of the store; "" is refused
	Store      string        `koanf:"store"`       // postgres://role@host/database; "": SQLite in Data
	Workspace  string        `koanf:"workspace"`   // what the file tools see and where bash starts; "" is refused
	Workspaces Workspaces    `koanf:"workspaces"`  // of namespaces that have one of their own; none: all have Workspace
	Listen     Listen        `koanf:"listen"`      // where clients reach the daemon; nowhere at all is refused
	TLS        TLS           `koanf:"tls"`         // of the TCP listener; zero: none
	Auth       Auth          `koanf:"auth"`        // who may do what, beside the token file and the peer of the unix socket
	Rules      string        `koanf:"rules"`       // file of permission rules; "": a tool's tier alone decides
	SingleUser bool          `koanf:"single_user"` // four eyes become a confirmation that the one person types; false: four eyes
	Limits     Limits        `koanf:"limits"`
	Documents  Documents     `koanf:"documents"`
	Failover   Failover      `koanf:"failover"` // between daemons on one PostgreSQL store
	Timeouts   Timeouts      `koanf:"timeouts"`
	Retention  Retention     `koanf:"retention"`
	Backup     Backup        `koanf:"backup"`
	Log        Log           `koanf:"log"`
	Bash       Bash          `koanf:"bash"`
	Sandbox    Sandbox       `koanf:"sandbox"`
	Metrics    Metrics       `koanf:"metrics"`
	Tracing    Tracing       `koanf:"tracing"`
	Tools      Tools         `koanf:"tools"`
	Workers    Workers       `koanf:"workers"`   // programs that dial in to run tools
	Redact     Redact        `koanf:"redact"`    // what is taken out of all that calls tell; zero: nothing
	Secrets    []NamedSecret `koanf:"secrets"`   // what references stand for, and who gets it; none: no reference has a value
	Hooks      []Hook        `koanf:"hooks"`     // outside the daemon, and the order of all; none: the daemon's own
	Ratelimit  []RateLimit   `koanf:"ratelimit"` // how often calls may come; none: as often as they like
	Notify     Notify        `koanf:"notify"`    // who hears of calls by webhook; zero: nobody
	Audit      Audit         `koanf:"audit"`     // the chain of audit records; zero: none is kept
	Loopguard  Loopguard     `koanf:"loopguard"` // stops runs that go round in circles; zero: nothing is counted
	Cache      Cache         `koanf:"cache"`     // answers of read-only calls that are given again; zero: none
	Remind     []Reminder    `koanf:"remind"`    // texts that are added to results; none: none
	MCP        MCP           `koanf:"mcp"`       // servers whose tools are taken in; zero: none
	Web        Web           `koanf:"web"`       // fetch and web_search
	Subagents  []Subagent    `koanf:"subagents"` // tools that give tasks to other models; none: none
	Command    Command       `koanf:"command"`   // programs that are tools by a manifest
	Compact    Compact       `koanf:"compact"`   // whose messages are made shorter for models; zero: nobody's
	// Moved says that the store's files were only moved, so that its unfinished calls are its own. A flag of serve alone:
	// what is in a file or the environment would say it again at every start.
	Moved bool `koanf:"-"`

	loaded loaded
}

// Listen says where clients reach the daemon.
type Listen struct {
	TCP  string `koanf:"tcp"`  // host:port; ":port" is the loopback address, port 0 a free one; "": no TCP
	Unix string `koanf:"unix"` // path of a socket, "<data>" stands for the data directory; "": none
}

// TLS names PEM files of the TCP listener.
type TLS struct {
	Cert     string `koanf:"cert"`      // with Key; both "": no TLS
	Key      string `koanf:"key"`       // with Cert
	ClientCA string `koanf:"client_ca"` // clients show a certificate that these sign; "": none is asked for
}

// Auth is who may do what.
type Auth struct {
	Tokens []Token `koanf:"tokens"` // none: the token of the first start, and the unix socket's peer
}

// Token is a static token, kept as its hash.
type Token struct {
	Name      string    `koanf:"name"`      // the subject; required; may have several tokens
	Namespace string    `koanf:"namespace"` // "": default
	Roles     []string  `koanf:"roles"`     // caller, delegate, approver, operator, viewer, worker, admin; none is refused
	Hash      string    `koanf:"hash"`      // sha256:<64 hex digits>, as "toold token hash" prints it; required
	Expires   time.Time `koanf:"expires"`   // zero: never
}

// Limits bound what calls may take. None may be zero but those that say what that means.
type Limits struct {
	Concurrency  int `koanf:"concurrency"`   // calls that run at once
	QueueLength  int `koanf:"queue_length"`  // calls that wait for a place; more are refused
	Arguments    int `koanf:"arguments"`     // bytes of a call's arguments; at most 1 MiB
	OutputBudget int `koanf:"output_budget"` // bytes that a result keeps of output; at most 256 KiB
	OutputQuota  int `koanf:"output_quota"`  // bytes that a call may print, report and save in all
	Watchers     int `koanf:"watchers"`      // streams that watch at once
	WatchersEach int `koanf:"watchers_each"` // those of one principal

	ConcurrencyNamespace int               `koanf:"concurrency_namespace"`  // calls of one namespace that run at once; 0: as many as there are places
	ConcurrencyPrincipal int               `koanf:"concurrency_principal"`  // those of one principal; 0: as many as there are places
	ConcurrencyTools     []ToolConcurrency `koanf:"concurrency_tools"`      // those of one tool; none: as many as there are places
	QueueNamespace       int               `koanf:"queue_namespace"`        // calls of one namespace that wait; 0: three quarters of QueueLength
	QueuePrincipal       int               `koanf:"queue_principal"`        // those of one principal; 0: half of QueueLength
	QuestionsNamespace   int               `koanf:"questions_namespace"`    // open questions of one namespace; 0: any number
	QuestionsPrincipal   int               `koanf:"questions_principal"`    // those of one principal; 0: any number
	StoredBytes          int               `koanf:"stored_bytes"`           // about what one namespace may have in journal and output; 0: any number
	OutputQuotaThread    int               `koanf:"output_quota_thread"`    // that the calls of one thread may keep of what they print and save; 0: any number
	OutputQuotaNamespace int               `koanf:"output_quota_namespace"` // those of one namespace; 0: any number
	CircuitFailures      int               `koanf:"circuit_failures"`       // of a source in a row, with UPSTREAM; 0: any number
	CircuitOpen          time.Duration     `koanf:"circuit_open"`           // for which such a source is not asked; 0: 30 s
}

// ToolConcurrency bounds how many calls of a tool run at once.
type ToolConcurrency struct {
	Tools string `koanf:"tools"` // glob on ids; each tool is counted alone; required
	Calls int    `koanf:"calls"` // required
}

// Documents bound what hooks and tools keep. None of the numbers may be zero.
type Documents struct {
	Size             int      `koanf:"size"`              // bytes of a document; at most 1 MiB
	Count            int      `koanf:"count"`             // documents of a run, thread or namespace
	Total            int      `koanf:"total"`             // bytes of those together; at most 64 MiB
	NamespaceWriters []string `koanf:"namespace_writers"` // globs of tools that may write the namespace's documents
}

// Failover says how soon a daemon that loses its PostgreSQL store stops acting, and how long its successor waits for that.
// None may be zero.
type Failover struct {
	Start time.Duration `koanf:"start"` // how old a proof of ownership may be when an effect starts
	Lease time.Duration `koanf:"lease"` // from the last proof to the end of the daemon; the server frees the store after a third of it
	Kill  time.Duration `koanf:"kill"`  // for the end of what ran
	Hold  time.Duration `koanf:"hold"`  // for which a successor leaves the attempts of a daemon alone that may live; at least 1.1 (Lease + Kill)
}

// Timeouts are the clocks of calls. None may be zero but Linger.
type Timeouts struct {
	Queue   time.Duration `koanf:"queue"`   // waiting for a place
	Attempt time.Duration `koanf:"attempt"` // from intent to result
	Linger  time.Duration `koanf:"linger"`  // for which a call runs unwatched; 0: not at all; negative ("never"): to its end
	Grace   time.Duration `koanf:"grace"`   // for a tool to heed its cancellation
	Expiry  time.Duration `koanf:"expiry"`  // of tickets that say nothing else
	Drain   time.Duration `koanf:"drain"`   // for running calls when the daemon stops; 0: none
	Stall   time.Duration `koanf:"stall"`   // for which a client may take nothing from its stream
}

// Retention is how long ended calls are kept. Neither may be zero.
type Retention struct {
	Calls      time.Duration `koanf:"calls"`      // with everything
	Tombstones time.Duration `koanf:"tombstones"` // their ids, so that none runs twice; at least Calls
}

// Backup says where the daemon may write copies of its store.
type Backup struct {
	Directories []string `koanf:"directories"` // below which each copy gets a directory; none: <data>/backups
}

// backupFolders returns the directories below which copies may be written.
func (c *Config) backupFolders() []string {
	if len(c.Backup.Directories) > 0 {
		return c.Backup.Directories
	}
	return []string{filepath.Join(c.Data, "backups")}
}

// Log says what is logged, to standard error.
type Log struct {
	Level  string `koanf:"level"`  // debug, info, warn, error; "" is refused
	Format string `koanf:"format"` // json, console; "": console on a terminal, else json
}

// Bash is about the tool bash.
type Bash struct {
	Profile string        `koanf:"profile"` // by which commands are isolated; "" is refused, none isolates nothing
	Env     []string      `koanf:"env"`     // NAME=value, added to the small environment of commands
	Timeout time.Duration `koanf:"timeout"` // the longest that a command may run; 0 is refused, at most 10 min
	// BackgroundEach is how many commands of one thread may run in the background; 0 is none. BackgroundTime is the longest
	// that one of them runs; at most 24 h.
	BackgroundEach int           `koanf:"background_each"`
	BackgroundTime time.Duration `koanf:"background_time"`
}

// Tools is about what models read of tools, and how their schemas are read.
type Tools struct {
	AssertFormats bool       `koanf:"assert_formats"` // formats count in schemas of 2020-12, too; false: there they only describe
	Descriptions  []Override `koanf:"descriptions"`   // in the place of the tools' own; none: their own
}

// Override is a description in the place of a tool's own.
type Override struct {
	Tool string `koanf:"tool"` // its id; required, once
	Text string `koanf:"text"` // "": it has none
}

// Metrics says where the numbers for Prometheus are.
type Metrics struct {
	Listen string `koanf:"listen"` // host:port, on the loopback address unless Public; "": nowhere
	Public bool   `koanf:"public"` // other machines may read the numbers, which name tools and methods; false: this one alone
}

// Tracing says which calls OpenTelemetry follows. The environment variables of OpenTelemetry say the rest.
type Tracing struct {
	Ratio    float64 `koanf:"ratio"`    // share of calls whose caller does not say; 0: nothing is installed and nobody is followed
	Endpoint string  `koanf:"endpoint"` // URL of the OTLP receiver (gRPC); "": as OTEL_EXPORTER_OTLP_ENDPOINT says
}

// Redact says what is secret.
type Redact struct {
	Values   []Secret  `koanf:"values"`   // known secrets; none: none is known
	Tokens   bool      `koanf:"tokens"`   // also what has the shape of a well-known token
	Patterns []Pattern `koanf:"patterns"` // also what matches these
}

// Secret is a known one. It is read once, when the daemon starts.
type Secret struct {
	Name  string `koanf:"name"`  // shown in its place; "": only that something was there
	Env   string `koanf:"env"`   // variable of the daemon's environment; one of Env, File and Value is given
	File  string `koanf:"file"`  // whose text it is, without the line end behind it
	Value string `koanf:"value"` // the secret itself
}

// Pattern is a regular expression of Go's syntax, matched within lines.
type Pattern struct {
	Name string `koanf:"name"` // shown in the place of what matches; "": only that something was there
	Expr string `koanf:"expr"` // required
}

// defaults is the configuration of a daemon that was told nothing.
func defaults() Config {
	return Config{
		Data:      "./data",
		Workspace: "./workspace",
		Listen:    Listen{TCP: defaultTCP, Unix: filepath.Join(dataMark, socketName)},
		Limits:    Limits{Concurrency: 256, QueueLength: 4096, Arguments: maxArguments, OutputBudget: 48 << 10, OutputQuota: 256 << 20, Watchers: 4096, WatchersEach: 1024, CircuitOpen: 30 * time.Second},
		Documents: Documents{Size: 256 << 10, Count: 256, Total: 4 << 20},
		Failover:  Failover{Start: 2 * time.Second, Lease: 30 * time.Second, Kill: 5 * time.Second, Hold: 40 * time.Second},
		Timeouts: Timeouts{
			Queue: 30 * time.Second, Attempt: 10 * time.Minute, Linger: 30 * time.Second,
			Grace: 5 * time.Second, Expiry: 30 * 24 * time.Hour, Drain: 30 * time.Second, Stall: 30 * time.Second,
		},
		Retention: Retention{Calls: 7 * 24 * time.Hour, Tombstones: 400 * 24 * time.Hour},
		Log:       Log{Level: "info"},
		Bash:      Bash{Profile: profileDefault, Timeout: 10 * time.Minute, BackgroundEach: 8, BackgroundTime: time.Hour},
		Workers:   defaultWorkers(),
		Web:       defaultWeb(),
		Audit:     Audit{Every: time.Minute},
		Loopguard: Loopguard{Window: loopguard.DefaultWindow, Idle: loopguard.DefaultIdle, Runs: loopguard.DefaultRuns},
		Compact:   Compact{From: compact.DefaultFrom},
		Cache:     Cache{Entries: cache.DefaultEntries, Bytes: cache.DefaultBytes},
	}
}

const (
	defaultTCP = "127.0.0.1:7130"
	dataMark   = "<data>" // stands for the data directory in listen.unix
	socketName = "toold.sock"
	tokenName  = "token"

	maxArguments = 1 << 20 // the contract's hard ceiling

	// MaxOutput is the most bytes of an inline result.
	MaxOutput = 256 << 10
)

// resolve replaces what stands for something else: the data directory in the socket's path, the loopback address for an
// empty host.
func (c *Config) resolve() {
	c.Listen.Unix = strings.ReplaceAll(c.Listen.Unix, dataMark, c.Data)
	c.Listen.TCP = loopbackHost(c.Listen.TCP)
	c.Metrics.Listen = loopbackHost(c.Metrics.Listen)
	for i := range c.Auth.Tokens {
		c.Auth.Tokens[i].Namespace = cmp.Or(c.Auth.Tokens[i].Namespace, "default")
	}
}

// loopbackHost gives an address without host the loopback address: without a thought nobody listens on all networks.
func loopbackHost(address string) string {
	if strings.HasPrefix(address, ":") {
		return "127.0.0.1" + address
	}
	return address
}

// TokenFile is where the token of the first start lies.
func (c *Config) TokenFile() string { return filepath.Join(c.Data, tokenName) }

// Command is about programs that are tools by a manifest.
type Command struct {
	Directory string `koanf:"directory"` // of manifests, one in each .yaml file; "": none
}
