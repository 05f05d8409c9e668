// Package config declares the settings of a daemon, reads them from flags, environment and file, and checks them.
//
// Each field of [Config] declares one setting; package setting describes how. Everything else is derived from the field: the key in the
// file, the environment variable, the flag, the checks, the output of "config show", whether a reload applies it, and its row in
// docs/reference/configuration.md.
//
// The package opens no store and starts nothing. The [Config] that it returns has passed all checks.
package config

import (
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/toold-dev/toold/lifecycle/documents"
	"github.com/toold-dev/toold/plugins/audit"
	"github.com/toold-dev/toold/plugins/cache"
	"github.com/toold-dev/toold/plugins/compact"
	"github.com/toold-dev/toold/plugins/loopguard"
	"github.com/toold-dev/toold/plugins/notify"
	"github.com/toold-dev/toold/plugins/ratelimit"
	"github.com/toold-dev/toold/plugins/redact"
	"github.com/toold-dev/toold/plugins/remind"
	"github.com/toold-dev/toold/setting"
	"github.com/toold-dev/toold/tools/command"
	"github.com/toold-dev/toold/tools/mcp"
	"github.com/toold-dev/toold/tools/subagent"
	"github.com/toold-dev/toold/tools/web"
)

// Config is the configuration of a daemon. The zero value of a field means an empty or zero setting; it does not select the default.
type Config struct {
	Data       string              `yaml:"data" default:"./data" required:"true" help:"directory of the store, the token and the socket"`
	Store      string              `yaml:"store" help:"postgres:// URL of the store, without a password; if empty, the store is an SQLite file in data" see:"../how-to/use-postgresql.md"`
	Workspace  string              `yaml:"workspace" default:"./workspace" required:"true" help:"directory that the file tools work in and in which bash starts"`
	Workspaces Workspaces          `yaml:"workspaces" help:"directories of namespaces with their own workspace; all other namespaces share workspace" see:"#namespaces-and-their-files"`
	Listen     Listen              `yaml:"listen"`
	HTTP       HTTP                `yaml:"http"`
	TLS        TLS                 `yaml:"tls" reload:"started"`
	Auth       Auth                `yaml:"auth"`
	Rules      string              `yaml:"rules" reload:"always" help:"file of permission rules; if empty, the tier of each tool decides" see:"permission.md"`
	SingleUser bool                `yaml:"single_user" help:"the daemon has only one user: where rules require a second person (four eyes), it asks the user to type a confirmation instead; records show this"`
	Limits     Limits              `yaml:"limits"`
	Documents  documents.Settings  `yaml:"documents"`
	Failover   Failover            `yaml:"failover"`
	Timeouts   Timeouts            `yaml:"timeouts"`
	Retention  Retention           `yaml:"retention"`
	Backup     Backup              `yaml:"backup"`
	Log        Log                 `yaml:"log"`
	Bash       Bash                `yaml:"bash"`
	Sandbox    Sandbox             `yaml:"sandbox"`
	Metrics    Metrics             `yaml:"metrics"`
	Tracing    Tracing             `yaml:"tracing"`
	Tools      Tools               `yaml:"tools"`
	Workers    Workers             `yaml:"workers"`
	Redact     redact.Config       `yaml:"redact" reload:"started"`
	Secrets    []NamedSecret       `yaml:"secrets" reload:"started" help:"values for secret://name, and the tools that get them" see:"secrets.md"`
	Hooks      []Hook              `yaml:"hooks" reload:"always" help:"programs and services that decide about calls, and the order of all hooks" see:"#hooks"`
	Ratelimit  []ratelimit.Limit   `yaml:"ratelimit" reload:"started" help:"limits for the rate of calls" see:"plugins/ratelimit.md"`
	Notify     notify.Settings     `yaml:"notify" reload:"started"`
	Audit      audit.Settings      `yaml:"audit"`
	Loopguard  loopguard.Config    `yaml:"loopguard" reload:"started"`
	Cache      cache.Config        `yaml:"cache" reload:"started"`
	Remind     []remind.Reminder   `yaml:"remind" reload:"started" help:"texts that are added to results" see:"plugins/remind.md"`
	MCP        mcp.Settings        `yaml:"mcp" reload:"always"`
	Web        web.Settings        `yaml:"web"`
	Subagents  []subagent.Settings `yaml:"subagents" help:"tools that give a task to another model" see:"tools/subagent.md"`
	Command    command.Settings    `yaml:"command" reload:"always"`
	Compact    compact.Config      `yaml:"compact" reload:"started"`

	// Moved says that the files of the store were moved to this machine, so that its unfinished calls now belong to this daemon. It exists
	// only as a flag of serve. In a file or an environment variable it would apply again at every start.
	Moved bool

	loaded loaded
}

// HTTP holds what browsers may do at the address listen.http.
type HTTP struct {
	Hosts   []string `yaml:"hosts" help:"host names in the requests that a reverse proxy forwards; IP addresses, names below localhost and the names of the certificate need no entry" see:"http.md#browsers"`
	Origins []string `yaml:"origins" help:"origins, such as https://app.example.com, whose pages may send requests with a token" see:"http.md#browsers"`
}

// Check implements [setting.Checker].
func (h *HTTP) Check() (wrong setting.Problems) {
	for _, name := range h.Hosts {
		if name == "" || strings.ToLower(name) != name || strings.ContainsAny(name, ":/*") {
			wrong.Add("hosts", "%q is not a host name in lower case without a port", name)
		}
	}
	for _, origin := range h.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || origin != u.Scheme+"://"+u.Host {
			wrong.Add("origins", "%q is not an origin such as https://app.example.com", origin)
		}
	}
	return wrong
}

// Listen holds the addresses where clients reach the daemon.
type Listen struct {
	TCP  string `yaml:"tcp" default:"127.0.0.1:7130" format:"address" help:"host:port for clients; :port alone means the loopback address, and port 0 any free port; if empty, the daemon does not listen on TCP"`
	HTTP string `yaml:"http" format:"address" help:"host:port for browsers, scripts and MCP clients; :port alone means the loopback address, and port 0 any free port; if empty, the daemon does not serve HTTP" see:"http.md"`
	Unix string `yaml:"unix" default:"<data>/toold.sock" help:"path of a unix socket that only the daemon's user can open; <data> means the data directory; if empty, there is no socket"`
}

// TLS names the PEM files of the TCP listener.
type TLS struct {
	Cert     string `yaml:"cert" help:"PEM certificate of the TCP listener; requires tls.key; if empty, the listener has no TLS"`
	Key      string `yaml:"key" help:"PEM key of tls.cert"`
	ClientCA string `yaml:"client_ca" help:"PEM certificates of certificate authorities; each client needs a certificate from one of them, in addition to its token unless auth.certificates maps the certificate"`
}

// Auth says who may use the daemon. The daemon also accepts the token in its token file, and its own user at the unix socket.
type Auth struct {
	Tokens  []Token       `yaml:"tokens" reload:"always" help:"static tokens of people and programs" see:"#who-may-come-in"`
	Session time.Duration `yaml:"session" reload:"always" default:"12h" min:"1m" max:"30d" help:"time after which a browser must sign in again; existing sessions keep their time" see:"../how-to/manage-tokens.md#sign-a-browser-in"`

	Issuers      []Issuer      `yaml:"issuers" reload:"always" help:"OpenID Connect issuers whose tokens are accepted" see:"../how-to/authenticate-clients.md"`
	Certificates []Certificate `yaml:"certificates" reload:"always" help:"client certificates that need no token; the first entry that matches applies" see:"../how-to/authenticate-clients.md#client-certificates"`
	Peers        []Peer        `yaml:"peers" reload:"always" help:"local users that need no token at the unix socket; with entries, every user of the machine can open the socket, and the daemon refuses users without an entry" see:"../how-to/authenticate-clients.md#users-of-the-machine"`
	// ApproverGroups are the groups whose members may answer a namespace's tickets.
	ApproverGroups []ApproverGroups `yaml:"approver_groups" help:"groups whose members may answer the tickets of a namespace, if a ticket names no other groups; without an entry, everybody with the role may answer" see:"permission.md#approver-groups"`
}

// ApproverGroups names the groups that answer the tickets of one namespace.
type ApproverGroups struct {
	Namespace string   `yaml:"namespace" default:"default" unique:"true" help:"namespace of the tickets"`
	Groups    []string `yaml:"groups" required:"true" format:"group" help:"an approver must belong to one of these groups"`
}

// Token is a static token. The configuration holds its hash only.
type Token struct {
	Name      string    `yaml:"name" required:"true" help:"subject in records; a subject may have several tokens"`
	Namespace string    `yaml:"namespace" default:"default" help:"namespace to which the token gives access"`
	Roles     []string  `yaml:"roles" required:"true" oneof:"caller delegate approver operator viewer worker admin" help:"roles of the token, which decide what it permits"`
	Groups    []string  `yaml:"groups" format:"group" help:"groups of the subject; tickets may name them as approvers" see:"permission.md#approver-groups"`
	Hash      string    `yaml:"hash" required:"true" unique:"true" secret:"true" help:"hash of the token: sha256: and 64 hexadecimal digits, as toold token hash prints it"`
	Expires   time.Time `yaml:"expires" help:"time after which the token is refused, such as 2027-01-31T00:00:00Z; if empty, the token does not expire"`
}

// Limits bounds the resources that calls use.
type Limits struct {
	Concurrency  int `yaml:"concurrency" default:"256" min:"1" max:"100000" help:"largest number of calls that run at the same time"`
	QueueLength  int `yaml:"queue_length" default:"4096" min:"1" max:"1000000" help:"largest number of calls that wait for a slot; further calls are refused"`
	Arguments    int `yaml:"arguments" default:"1048576" min:"1" max:"1048576" help:"largest size of a call's arguments, in bytes"`
	OutputBudget int `yaml:"output_budget" default:"49152" min:"1" max:"262144" help:"bytes of output in a result; toold stores longer output as an artifact"`
	OutputQuota  int `yaml:"output_quota" default:"268435456" min:"1" max:"1099511627776" help:"bytes that a call may print, report and save in total; a call that exceeds them ends with RESOURCE_EXHAUSTED"`
	Watchers     int `yaml:"watchers" default:"4096" min:"1" max:"1000000" help:"largest number of streams that watch at the same time; further ones are refused"`
	WatchersEach int `yaml:"watchers_each" default:"1024" min:"1" max:"1000000" help:"largest number of streams of one principal that watch at the same time; a stream of ExecuteTool or ResumeTool counts only after its first 32 KiB"`

	ConcurrencyNamespace int               `yaml:"concurrency_namespace" default:"0" min:"0" max:"100000" help:"largest number of calls of one namespace that run at the same time; 0 means no limit" see:"../how-to/set-limits.md"`
	ConcurrencyPrincipal int               `yaml:"concurrency_principal" default:"0" min:"0" max:"100000" help:"largest number of calls of one principal that run at the same time; 0 means no limit"`
	ConcurrencyTools     []ToolConcurrency `yaml:"concurrency_tools" help:"limits for the calls of one tool that run at the same time; the first entry that matches the tool applies"`
	QueueNamespace       int               `yaml:"queue_namespace" default:"0" min:"0" max:"1000000" help:"largest number of calls of one namespace that wait for a slot; 0 means three quarters of limits.queue_length"`
	QueuePrincipal       int               `yaml:"queue_principal" default:"0" min:"0" max:"1000000" help:"largest number of calls of one principal that wait for a slot; 0 means half of limits.queue_length"`
	QuestionsNamespace   int               `yaml:"questions_namespace" default:"0" min:"0" max:"100000000" help:"largest number of calls of one namespace that wait for a decision; 0 means no limit"`
	QuestionsPrincipal   int               `yaml:"questions_principal" default:"0" min:"0" max:"100000000" help:"largest number of calls of one principal that wait for a decision; 0 means no limit"`
	StoredBytes          int               `yaml:"stored_bytes" default:"0" min:"0" max:"1125899906842624" help:"approximate bytes that one namespace may store, in journal and output together; 0 means no limit"`
	OutputQuotaThread    int               `yaml:"output_quota_thread" default:"0" min:"0" max:"1125899906842624" help:"bytes of output that toold stores for the calls of one thread; it discards the rest and adds a note; 0 means no limit" see:"../how-to/set-limits.md"`
	OutputQuotaNamespace int               `yaml:"output_quota_namespace" default:"0" min:"0" max:"1125899906842624" help:"bytes of output that toold stores for the calls of one namespace; it discards the rest and adds a note; 0 means no limit"`
	CircuitFailures      int               `yaml:"circuit_failures" default:"0" min:"0" max:"1000" help:"number of consecutive UPSTREAM failures of a source after which its circuit opens; 0 means never"`
	CircuitOpen          time.Duration     `yaml:"circuit_open" default:"30s" min:"0" max:"1d" help:"time for which an open circuit refuses calls; then one call tries the source again"`
}

// ToolConcurrency bounds how many calls of a tool run at once.
type ToolConcurrency struct {
	Tools string `yaml:"tools" required:"true" format:"glob" help:"glob on tool ids; each tool has its own count"`
	Calls int    `yaml:"calls" min:"1" max:"100000" help:"largest number of calls that run at the same time"`
}

// Failover says how soon a daemon stops its effects after it loses its PostgreSQL store, and how long the next daemon waits for that.
type Failover struct {
	Start time.Duration `yaml:"start" default:"2s" min:"10ms" max:"1m" help:"largest age of the last proof that the daemon owns its PostgreSQL store; before a tool that changes something starts, the daemon needs a proof of at most this age" see:"../how-to/use-postgresql.md#two-daemons"`
	Lease time.Duration `yaml:"lease" default:"30s" min:"100ms" max:"10m" help:"time without a proof of ownership of the store after which the daemon ends; after a third of this time without contact, the PostgreSQL server frees the store"`
	Kill  time.Duration `yaml:"kill" default:"5s" min:"10ms" max:"1m" help:"time in which a daemon kills its tools when it ends because of failover.lease"`
	Hold  time.Duration `yaml:"hold" default:"40s" min:"100ms" max:"1h" help:"time for which a daemon that took over the store does not touch the attempts of the other daemon; at least 1.1 times the sum of lease and kill"`
}

// Timeouts holds the time limits of calls.
type Timeouts struct {
	Queue   time.Duration `yaml:"queue" default:"30s" min:"1ms" max:"1d" help:"longest time that a call waits for a slot"`
	Attempt time.Duration `yaml:"attempt" default:"10m" min:"1ms" max:"7d" help:"longest time of an attempt, from its intent to its result, unless the call or the tool sets another one"`
	Linger  time.Duration `yaml:"linger" default:"30s" min:"never" max:"365d" help:"time that a call continues without a watcher before it is cancelled; 0 cancels it at once; with never, it runs to its end"`
	Grace   time.Duration `yaml:"grace" default:"5s" min:"1ms" max:"1h" help:"time within which a cancelled tool can return before it is abandoned"`
	Expiry  time.Duration `yaml:"expiry" default:"30d" min:"1s" max:"30d" help:"time that a ticket waits for a decision before it expires, unless the ticket sets another one"`
	Drain   time.Duration `yaml:"drain" default:"30s" min:"0" max:"1h" help:"time within which running calls can end by themselves when the daemon stops; 0 ends them at once"`
	Stall   time.Duration `yaml:"stall" default:"30s" min:"1s" max:"1h" help:"time for which a client may read nothing from its stream; then the stream ends and returns a cursor"`
}

// Retention says how long the daemon keeps calls after their end.
type Retention struct {
	Calls      time.Duration `yaml:"calls" default:"7d" min:"1s" max:"36500d" help:"time that the full records of ended calls are kept"`
	Tombstones time.Duration `yaml:"tombstones" default:"400d" min:"1s" max:"36500d" help:"time that the ids of ended calls are kept, so that no call with such an id runs again; at least retention.calls"`
}

// Backup says where the daemon may write copies of its store.
type Backup struct {
	Directories []string `yaml:"directories" help:"folders below which toold backup may write copies of the store; if empty, <data>/backups" see:"../how-to/back-up.md"`
}

// backupFolders returns the directories below which the daemon may write copies of its store.
func (c *Config) backupFolders() []string {
	if len(c.Backup.Directories) > 0 {
		return c.Backup.Directories
	}
	return []string{filepath.Join(c.Data, "backups")}
}

// Log configures the log, which the daemon writes to standard error.
type Log struct {
	Level  string `yaml:"level" default:"info" required:"true" oneof:"debug info warn error" reload:"always" help:"lowest level of the lines that are logged"`
	Format string `yaml:"format" oneof:"json console" help:"format of the log lines; if empty, console on a terminal, otherwise json"`
}

// Bash configures the tool bash.
type Bash struct {
	Profile        string        `yaml:"profile" default:"default" required:"true" help:"isolation of commands: default, readonly, network, landlock, none, or a name of sandbox.profiles" see:"../explanation/isolation.md"`
	Env            []string      `yaml:"env" format:"environment" secret:"true" help:"NAME=value for the environment of commands; the value may refer to secrets" see:"secrets.md"`
	Timeout        time.Duration `yaml:"timeout" default:"10m" min:"1s" max:"10m" help:"longest time of a command, even when the model asks for more"`
	BackgroundEach int           `yaml:"background_each" default:"8" min:"0" max:"1000" help:"largest number of commands of one thread that run in the background; 0 removes the tools for background commands"`
	BackgroundTime time.Duration `yaml:"background_time" default:"1h" min:"1s" max:"1d" help:"longest time of a command in the background"`
}

// Tools configures the descriptions and ids of tools that models read and how the daemon reads the schemas of tools.
type Tools struct {
	AssertFormats bool       `yaml:"assert_formats" help:"check values against format in schemas of draft 2020-12; otherwise format is only an annotation there" see:"schemas.md"`
	Descriptions  []Override `yaml:"descriptions" reload:"always" help:"texts that models read in place of the tools' own descriptions"`
	Names         []Name     `yaml:"names" reload:"always" help:"new ids of tools" see:"definitions.md"`
}

// Name replaces the id of a tool.
type Name struct {
	Source string `yaml:"source" required:"true" help:"source of the tool, as toold tools sources shows it, such as builtin, command or mcp:github"`
	Tool   string `yaml:"tool" required:"true" format:"id" help:"id that the source gave the tool"`
	ID     string `yaml:"id" required:"true" unique:"true" format:"id" help:"new id of the tool"`
	Alias  bool   `yaml:"alias" help:"keep the id that the source gave the tool as an alias, so that calls with it still find the tool"`
}

// Override replaces the description of a tool.
type Override struct {
	Tool string `yaml:"tool" required:"true" unique:"true" format:"id" help:"id of the tool"`
	Text string `yaml:"text" help:"description, at most 16 KiB; if empty, models read no description"`
}

// Metrics configures the listener for Prometheus.
type Metrics struct {
	Listen string `yaml:"listen" format:"address" help:"host:port of the metrics for Prometheus; if empty, there is no such endpoint" see:"metrics.md"`
	Public bool   `yaml:"public" help:"allow an address outside the loopback network for metrics.listen, so that other machines can read the metrics"`
}

// Tracing says which calls are traced with OpenTelemetry. The environment variables of OpenTelemetry configure the rest.
type Tracing struct {
	Ratio    float64 `yaml:"ratio" default:"0" min:"0" max:"1" help:"share of calls that are traced when the caller's request does not say whether to trace; 0 turns tracing off" see:"metrics.md#traces"`
	Endpoint string  `yaml:"endpoint" help:"URL of the OTLP receiver (gRPC); if empty, the value of OTEL_EXPORTER_OTLP_ENDPOINT"`
}

// Workers configures the limits for workers: programs that connect to the daemon to run tools.
type Workers struct {
	Lease   time.Duration `yaml:"lease" default:"15s" min:"500ms" max:"10m" help:"time without a message from a worker after which it loses its calls" see:"tools/worker.md"`
	Wait    time.Duration `yaml:"wait" default:"30s" min:"1ms" max:"1h" help:"longest time that a call waits for a worker with capacity"`
	Each    int           `yaml:"each" default:"256" min:"1" max:"65536" help:"largest number of workers of one namespace that are connected at the same time"`
	Trusted []string      `yaml:"trusted" help:"pools, as namespace/pool, whose workers may change tool definitions without the consent of an operator"`
}

const (
	dataMark  = "<data>" // stands for the data directory in listen.unix
	tokenName = "token"
)

// defaults returns a configuration in which every setting has its default.
func defaults() Config {
	var c Config
	setting.Fill(&c)
	return c
}

// resolve replaces placeholders: the mark for the data directory in the path of the socket, and an empty host, which becomes the loopback
// address.
func (c *Config) resolve() {
	c.Listen.Unix = strings.ReplaceAll(c.Listen.Unix, dataMark, c.Data)
	c.Listen.TCP = loopbackHost(c.Listen.TCP)
	c.Listen.HTTP = loopbackHost(c.Listen.HTTP)
	c.Metrics.Listen = loopbackHost(c.Metrics.Listen)
}

// loopbackHost adds the loopback address to an address without a host, so that no daemon listens on all networks by accident.
func loopbackHost(address string) string {
	if strings.HasPrefix(address, ":") {
		return "127.0.0.1" + address
	}
	return address
}

// TokenFile returns the path of the token file, which the daemon writes at its first start.
func (c *Config) TokenFile() string { return filepath.Join(c.Data, tokenName) }
