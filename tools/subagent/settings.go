package subagent

import (
	"net/url"
	"time"

	"github.com/toold-dev/toold/setting"
)

// Settings configure one subagent.
type Settings struct {
	Name         string        `yaml:"name" required:"true" unique:"true" format:"id" help:"id of the tool"`
	Description  string        `yaml:"description" help:"description that models read; empty is a general sentence"`
	Protocol     Protocol      `yaml:"protocol" required:"true" oneof:"openai anthropic" help:"API of the endpoint"`
	Endpoint     string        `yaml:"endpoint" required:"true" help:"base URL, with /v1 for openai, without for anthropic"`
	Model        string        `yaml:"model" required:"true" help:"name of the model"`
	Key          string        `yaml:"key" format:"reference" help:"secret://name of the key; one of key, key_file and key_env, or none"`
	KeyFile      string        `yaml:"key_file" help:"file whose text is the key, read for each request"`
	KeyEnv       string        `yaml:"key_env" help:"variable of the daemon's environment that is the key"`
	System       string        `yaml:"system" help:"text that the model reads before its task; empty is a sentence about its purpose"`
	Tools        Tools         `yaml:"tools"`
	Depth        int           `yaml:"depth" default:"2" min:"1" max:"8" help:"levels of subagents, with this one"`
	Turns        int           `yaml:"turns" default:"20" min:"1" max:"1000" help:"answers of the model"`
	Tokens       int64         `yaml:"tokens" default:"200000" min:"1" max:"1000000000000" help:"tokens of all answers, read and written"`
	AnswerTokens int           `yaml:"answer_tokens" default:"0" min:"0" max:"1000000000" help:"tokens of one answer; 0 is the endpoint's limit, and 8192 for anthropic"`
	Time         time.Duration `yaml:"time" default:"10m" min:"1ms" max:"1d" help:"time that it works, without waiting for people"`
	Request      time.Duration `yaml:"request_timeout" default:"2m" min:"1ms" max:"1h" help:"time of one request to the endpoint"`
	Tier         string        `yaml:"tier" default:"confirm" oneof:"observe confirm escalate" help:"tier of the tool"`
	Parallel     bool          `yaml:"parallel" help:"let several of its calls of one thread run at once"`
}

// Tools selects tools by globs on their ids.
type Tools struct {
	Allow   []string `yaml:"allow" format:"glob" help:"globs on the ids of tools that it may use, of those that its caller may use; none is all"`
	Exclude []string `yaml:"exclude" format:"glob" help:"globs on the ids of tools that it may not use"`
}

// Check implements [setting.Checker].
func (s *Settings) Check() (wrong setting.Problems) {
	if u, err := url.Parse(s.Endpoint); s.Endpoint != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		wrong.Add("endpoint", "%q is no URL such as https://api.example.com/v1", s.Endpoint)
	}
	if setting.Given(s.Key, s.KeyFile, s.KeyEnv) > 1 {
		wrong.Add("", "one of key, key_file and key_env says where the key is, not two")
	}
	return wrong
}

// OwnKey reports whether the key comes from a file or an environment variable. Otherwise it comes from the daemon's secrets, or there is
// none.
func (s *Settings) OwnKey() bool { return s.KeyFile != "" || s.KeyEnv != "" }
