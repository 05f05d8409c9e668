package setting_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/setting"
)

type config struct {
	Size   int           `yaml:"size" default:"8" min:"1" max:"10" help:"bytes"`
	Share  float64       `yaml:"share" default:"0.5" min:"0" max:"1" help:"a share"`
	Wait   time.Duration `yaml:"wait" default:"30s" min:"1s" max:"1d" help:"a time"`
	Level  string        `yaml:"level" oneof:"low high" help:"a level"`
	Group  group         `yaml:"group" reload:"always"`
	Rules  []rule        `yaml:"rules" help:"rules"`
	Others []string      `yaml:"others" format:"environment" unique:"true" help:"variables"`
	Inner  int           // not a setting
}

type group struct {
	Ports []int  `yaml:"ports" min:"1" max:"65535" help:"ports"`
	At    string `yaml:"at" format:"address" help:"host:port" reload:"started"`
}

type rule struct {
	Name string   `yaml:"name" required:"true" unique:"true" help:"a name"`
	Key  string   `yaml:"key" unique:"true" secret:"true" help:"a key"`
	Most int      `yaml:"most" default:"3" min:"1" max:"5" help:"a number"`
	By   []string `yaml:"by" unique:"true" oneof:"run thread" help:"words"`
}

func (g *group) Check() (wrong setting.Problems) {
	if len(g.Ports) > 2 {
		wrong.Add("", "two ports are enough")
	}
	return wrong
}

func (r *rule) Check() (wrong setting.Problems) {
	if r.Key == r.Name && r.Key != "" {
		wrong.Add("key", "is the name")
	}
	return wrong
}

func TestSettings(t *testing.T) {
	var got []string
	for _, s := range setting.Of(reflect.TypeFor[config]()) {
		got = append(got, s.Key+" "+s.Reload)
	}
	if want := "size ,share ,wait ,level ,group.ports always,group.at started,rules ,others "; strings.Join(got, ",") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestFill checks that Fill sets zero values to their defaults, also in elements of lists, and that it does not modify a list of the
// caller.
func TestFill(t *testing.T) {
	mine := []rule{{Name: "a", By: []string{"run"}}, {Name: "b", By: []string{"run"}, Most: 5}}
	c := config{Size: 2, Rules: mine}
	setting.Fill(&c)
	if c.Size != 2 || c.Share != 0.5 || c.Wait != 30*time.Second || c.Rules[0].Most != 3 || c.Rules[1].Most != 5 || mine[0].Most != 0 {
		t.Errorf("%+v, the caller's list is %+v", c, mine)
	}
	if problems := setting.Check(c); problems.Err() != nil {
		t.Error(problems)
	}
}

func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*config){
		"size: 11 is not between 1 and 10":             func(c *config) { c.Size = 11 },
		"share: -0.1 is not between 0 and 1":           func(c *config) { c.Share = -0.1 },
		"share: NaN is not between 0 and 1":            func(c *config) { c.Share = nan() },
		"wait: 2d is not between 1s and 1d":            func(c *config) { c.Wait = 48 * time.Hour },
		"wait: must have a limit between 1s and 1d":    func(c *config) { c.Wait = setting.Never },
		`level: "mid" is not one of low, high`:         func(c *config) { c.Level = "mid" },
		"group.ports: 0 is not between 1 and 65535":    func(c *config) { c.Group.Ports = []int{80, 0} },
		`group.at: "x" is not host:port`:               func(c *config) { c.Group.At = "x" },
		"rules[0].name: is required: a name":           func(c *config) { c.Rules = []rule{{Most: 1}} },
		`rules[1].name: "a" is set twice`:              func(c *config) { c.Rules = []rule{{Name: "a", Most: 1}, {Name: "a", Most: 1}} },
		"rules[1].key: the same value is set twice":    func(c *config) { c.Rules = []rule{{"a", "secret", 1, nil}, {"b", "secret", 1, nil}} },
		`rules[0].by: "run" is set twice`:              func(c *config) { c.Rules = []rule{{Name: "a", Most: 1, By: []string{"run", "run"}}} },
		"rules[0].most: 6 is not between 1 and 5":      func(c *config) { c.Rules = []rule{{Name: "a", Most: 6}} },
		"others: entry 2 is not NAME=value":            func(c *config) { c.Others = []string{"A=b", "secret"} },
		`others: "A=b" is set twice`:                   func(c *config) { c.Others = []string{"A=b", "A=b"} },
		"group: two ports are enough":                  func(c *config) { c.Group.Ports = []int{1, 2, 3} },
		"rules[1].key: is the name":                    func(c *config) { c.Rules = []rule{{Name: "a", Most: 1}, {Name: "b", Most: 1, Key: "b"}} },
		"size: 0 is not between 1 and 10\nshare: 2 is": func(c *config) { c.Size, c.Share = 0, 2 },
	} {
		var c config
		setting.Fill(&c)
		change(&c)
		if err := setting.Check(&c).Err(); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

func nan() float64 { zero := 0.0; return zero / zero }

// TestValues checks that Parse accepts the texts that Text returns. For an invalid text, the error of Parse must contain that text.
func TestValues(t *testing.T) {
	for text, v := range map[string]any{
		"7d": new(time.Duration), "1m30s": new(time.Duration), "never": new(time.Duration), "0s": new(time.Duration), "1h": new(time.Duration),
		"-3": new(int), "1125899906842624": new(int64), "0.25": new(float64), "true": new(bool), "a: b": new(string), "2027-01-31T00:00:00Z": new(time.Time),
	} {
		to := reflect.ValueOf(v).Elem()
		if err := setting.Parse(to, text); err != nil || setting.Text(to) != text {
			t.Errorf("%q is read as %v and written as %q: %v", text, to, setting.Text(to), err)
		}
	}
	for text, v := range map[string]any{"30": new(time.Duration), "1.5": new(int), "x": new(float64), "maybe": new(bool), "tomorrow": new(time.Time), "40000d": new(time.Duration)} {
		if err := setting.Parse(reflect.ValueOf(v).Elem(), text); err == nil || !strings.HasPrefix(err.Error(), `"`+text+`" is n`) {
			t.Errorf("%q is read as %v: %v", text, reflect.ValueOf(v).Elem(), err)
		}
	}
}
