package notify

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/setting"
	"github.com/toold-dev/toold/tool"
)

// A Target is a receiver's address and the events that it gets. A daemon reads the named files into Secrets and CA.
type Target struct {
	Name      string        `yaml:"name" required:"true" unique:"true" format:"name" help:"name of the target; it appears in metrics and dead letters" see:"plugins/notify.md"`
	URL       string        `yaml:"url" required:"true" help:"https URL, or http to this machine, without user, password or fragment"`
	Events    []Event       `yaml:"events" oneof:"suspended finished" help:"events that the target gets; an empty list means all events"`
	Match     Match         `yaml:"match"`
	File      string        `yaml:"secret_file" help:"file of one or two signing keys, one a line: whsec_ and the base64 of 24 to 64 bytes"`
	Reference string        `yaml:"secret" format:"reference" help:"replaces secret_file: a reference secret://name to a secret in the same format; toold reads it for each attempt"`
	Authority string        `yaml:"ca" help:"PEM file of the certificate authority of the receiver; if empty, the authorities of the system"`
	Content   bool          `yaml:"content" help:"include the title of the call and its filtered result, in the form that models read"`
	Timeout   time.Duration `yaml:"timeout" default:"10s" min:"1ms" max:"1m" help:"longest time of one attempt"`
	First     time.Duration `yaml:"first_delay" default:"1s" min:"1ms" max:"1d" help:"delay before the second attempt; the delay doubles before each further attempt"`
	Most      time.Duration `yaml:"most_delay" default:"1h" min:"1ms" max:"1d" help:"longest delay between two attempts"`
	GiveUp    time.Duration `yaml:"give_up" default:"3d" min:"1ms" max:"30d" help:"time after the event when an undelivered webhook becomes a dead letter"`
	AtOnce    int           `yaml:"at_once" default:"4" min:"1" max:"64" help:"largest number of attempts at the same time"`

	Secrets []Secret // content of File; every secret signs. Empty when Reference is set, because [Config.Resolve] then returns the secrets
	CA      []byte   // content of Authority; nil means the system's certificates
}

// Match limits a target to some calls. A call must match each list that is not empty.
type Match struct {
	Tools      []string `yaml:"tools" format:"glob" help:"globs on tool ids; an empty list matches every tool"`
	Namespaces []string `yaml:"namespaces" help:"namespaces of calls; an empty list matches every namespace"`
}

// Event is a kind of event that a target may want.
type Event string

// The kinds of events.
const (
	Suspended Event = "suspended" // a call waits for a decision
	Finished  Event = "finished"  // a call has ended
)

const maxTargets = 64

// Settings declare the webhook targets.
type Settings struct {
	Targets []Target `yaml:"targets" help:"addresses that get a webhook for events of calls" see:"plugins/notify.md"`
}

// Check implements [setting.Checker].
func (c *Settings) Check() (wrong setting.Problems) {
	if len(c.Targets) > maxTargets {
		wrong.Add("targets", "there are %d; at most %d are allowed", len(c.Targets), maxTargets)
	}
	return wrong
}

// Check implements [setting.Checker]. It does not require the secrets, because the files may not have been read yet.
func (t *Target) Check() (wrong setting.Problems) {
	if err := checkURL(t.URL); err != nil && t.URL != "" {
		wrong.Add("url", "%v", err)
	}
	switch given := setting.Given(t.Reference, t.File); {
	case given > 1:
		wrong.Add("", "requires either secret or secret_file")
	case given == 0 && len(t.Secrets) == 0:
		wrong.Add("secret_file", "requires a secret, so that the receiver can verify the sender")
	}
	if t.CA != nil && !x509.NewCertPool().AppendCertsFromPEM(t.CA) {
		wrong.Add("ca", "contains no PEM certificate")
	}
	if t.First > t.Most {
		wrong.Add("first_delay", "%v is more than most_delay, which is %v", t.First, t.Most)
	}
	return wrong
}

// checkURL accepts https, and http to this machine. Private addresses are allowed, because the operator chooses the receiver.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return errors.New("want a URL such as https://example.org/hooks/toold")
	case u.User != nil:
		return errors.New("must not contain a user or password: notifications are signed")
	case u.Fragment != "":
		return errors.New("a fragment is never sent")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return errors.New("http is only allowed for this machine (127.0.0.1, [::1], localhost); other hosts require https")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%q is not https", u.Scheme)
	}
	return nil
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func (t *Target) wants(c *call.Call, ev *call.Event) bool {
	e := Finished
	if ev.Type == call.EventSuspended {
		e = Suspended
	}
	return (len(t.Events) == 0 || slices.Contains(t.Events, e)) &&
		(len(t.Match.Namespaces) == 0 || slices.Contains(t.Match.Namespaces, c.Namespace)) &&
		(len(t.Match.Tools) == 0 || tool.AnyGlob(t.Match.Tools, c.Tool))
}
