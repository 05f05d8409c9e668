package subagent

import (
	"net/url"
	"time"

	"github.com/toold-dev/toold/setting"
)

// Settings configure one subagent.
type Settings struct {
	Name         string        `yaml:"name" required:"true" unique:"true" format:"id" help:"id of the tool"`
	Description  string        `yaml:"description" help:"description that models read; if empty, a general sentence"`
	Protocol     Protocol      `yaml:"protocol" required:"true" oneof:"openai anthropic" help:"API of the endpoint"`
	Endpoint     string        `yaml:"endpoint" required:"true" help:"base URL; it ends with /v1 for openai, but not for anthropic"`
	Model        string        `yaml:"model" required:"true" help:"name of the model"`
	Key          string        `yaml:"key" format:"reference" help:"a reference secret://name to the key of the endpoint; set at most one of key, key_file and key_env"`
	KeyFile      string        `yaml:"key_file" help:"file that contains the key; toold reads it for each request"`
	KeyEnv       string        `yaml:"key_env" help:"variable of the daemon's environment that contains the key"`
	System       string        `yaml:"system" help:"system prompt of the model; if empty, a sentence about its purpose"`
	Tools        Tools         `yaml:"tools"`
	Depth        int           `yaml:"depth" default:"2" min:"1" max:"8" help:"largest depth of nested subagents, counting this one"`
	Turns        int           `yaml:"turns" default:"20" min:"1" max:"1000" help:"largest number of turns, which are answers of the model"`
	Tokens       int64         `yaml:"tokens" default:"200000" min:"1" max:"1000000000000" help:"largest number of input and output tokens of all requests to the model together"`
	AnswerTokens int           `yaml:"answer_tokens" default:"0" min:"0" max:"1000000000" help:"largest number of tokens of one answer; 0 means the limit of the endpoint, or 8192 for anthropic"`
	Time         time.Duration `yaml:"time" default:"10m" min:"1ms" max:"1d" help:"time that the subagent may work; the time in which it waits for people does not count"`
	Request      time.Duration `yaml:"request_timeout" default:"2m" min:"1ms" max:"1h" help:"longest time of one request to the endpoint"`
	Tier         string        `yaml:"tier" default:"confirm" oneof:"observe confirm escalate" help:"tier of the tool"`
	Parallel     bool          `yaml:"parallel" help:"let several calls of this tool in one thread run at the same time"`
}

// Tools selects tools by globs on their ids.
type Tools struct {
	Allow   []string `yaml:"allow" format:"glob" help:"globs on the ids of tools; the subagent may use those that match and that its caller may use; an empty list matches every tool"`
	Exclude []string `yaml:"exclude" format:"glob" help:"globs on the ids of tools that the subagent may not use"`
}

// Check implements [setting.Checker].
func (s *Settings) Check() (wrong setting.Problems) {
	if u, err := url.Parse(s.Endpoint); s.Endpoint != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		wrong.Add("endpoint", "%q is not a URL such as https://api.example.com/v1", s.Endpoint)
	}
	if setting.Given(s.Key, s.KeyFile, s.KeyEnv) > 1 {
		wrong.Add("", "set only one of key, key_file and key_env")
	}
	return wrong
}

// OwnKey reports whether the key comes from a file or an environment variable. Otherwise it comes from the daemon's secrets, or there is
// none.
func (s *Settings) OwnKey() bool { return s.KeyFile != "" || s.KeyEnv != "" }
