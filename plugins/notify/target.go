package notify

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
)

// A Target is an address and what it wants to hear.
type Target struct {
	Name string // of its queue; required, once
	URL  string // https, or http to this machine; required
	// Of which events and calls: each list that is not empty must hold.
	Events     []Event
	Tools      []string // globs on tool ids
	Namespaces []string
	// Secrets sign each letter, all of them; at least one. With Reference there are none here: [Config.Resolve] has them.
	Secrets   []Secret
	Reference string
	CA        []byte // PEM certificates that sign the receiver's; none: the system's
	// Content puts the title of the call and the text of its result into letters, as the filters of events left them.
	Content bool

	Timeout time.Duration // of one attempt; 0: 10 s
	First   time.Duration // between the first attempt and the second; twice as much before each further one; 0: 1 s
	Most    time.Duration // the longest such wait; 0: 1 h
	GiveUp  time.Duration // after which a letter is dead, since its event; 0: 3 d
	AtOnce  int           // attempts at the same time; 0: 4
}

// Event is what a target may want.
type Event string

// The events.
const (
	Suspended Event = "suspended" // a call waits for a decision
	Finished  Event = "finished"  // a call has ended
)

// Bounds of a target.
const (
	maxTargets = 64
	maxAtOnce  = 64
	maxGiveUp  = 30 * 24 * time.Hour
)

var targetName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func (t Target) filled() Target {
	set := func(to *time.Duration, value time.Duration) {
		if *to == 0 {
			*to = value
		}
	}
	set(&t.Timeout, 10*time.Second)
	set(&t.First, time.Second)
	set(&t.Most, time.Hour)
	set(&t.GiveUp, 3*24*time.Hour)
	if t.AtOnce == 0 {
		t.AtOnce = 4
	}
	return t
}

// A TargetError is what is wrong with one of the targets.
type TargetError struct {
	Index int
	Field string // as the configuration calls it
	Text  string
}

func (e *TargetError) Error() string { return e.Field + ": " + e.Text }

// check says everything that is wrong, as [TargetError]s.
func check(targets []Target) error {
	var problems []error
	if len(targets) > maxTargets {
		problems = append(problems, fmt.Errorf("%d targets; %d are allowed", len(targets), maxTargets))
	}
	seen := map[string]bool{}
	for i := range targets {
		t := targets[i].filled()
		wrong := func(field, format string, args ...any) {
			problems = append(problems, &TargetError{i, field, fmt.Sprintf(format, args...)})
		}
		if !targetName.MatchString(t.Name) {
			wrong("name", "%q is no name: letters, digits, - and _, at most 64", t.Name)
		}
		if seen[t.Name] {
			wrong("name", "%q stands twice", t.Name)
		}
		seen[t.Name] = true
		if err := checkURL(t.URL); err != nil {
			wrong("url", "%v", err)
		}
		t.checkWishes(wrong)
		t.checkBounds(wrong)
	}
	return errors.Join(problems...)
}

func (t *Target) checkWishes(wrong func(field, format string, args ...any)) {
	for _, e := range t.Events {
		if e != Suspended && e != Finished {
			wrong("events", "%q is not suspended or finished", e)
		}
	}
	for _, g := range t.Tools {
		if _, err := path.Match(g, ""); err != nil || g == "" {
			wrong("match.tools", "%q is not a pattern of *, ? and [classes]", g)
		}
	}
	if len(t.Secrets) == 0 && t.Reference == "" {
		wrong("secret_file", "want at least one secret: a receiver must be able to tell who writes")
	}
	if t.CA != nil && !x509.NewCertPool().AppendCertsFromPEM(t.CA) {
		wrong("ca", "holds no certificate in PEM")
	}
}

func (t *Target) checkBounds(wrong func(field, format string, args ...any)) {
	for _, d := range []struct {
		field              string
		value, least, most time.Duration
	}{
		{"timeout", t.Timeout, time.Millisecond, time.Minute},
		{"first_delay", t.First, time.Millisecond, t.Most},
		{"most_delay", t.Most, time.Millisecond, 24 * time.Hour},
		{"give_up", t.GiveUp, time.Millisecond, maxGiveUp},
	} {
		if d.value < d.least || d.value > d.most {
			wrong(d.field, "%v is not between %v and %v", d.value, d.least, d.most)
		}
	}
	if t.AtOnce < 1 || t.AtOnce > maxAtOnce {
		wrong("at_once", "%d is not between 1 and %d", t.AtOnce, maxAtOnce)
	}
}

// checkURL takes https, and http to this machine. Where an address leads is the operator's to say; private ones are allowed.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return errors.New("want a URL such as https://example.org/hooks/toold")
	case u.User != nil:
		return errors.New("a user or password does not belong here: letters are signed")
	case u.Fragment != "":
		return errors.New("a fragment is never sent")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return errors.New("http is for this machine alone (127.0.0.1, [::1], localhost); others need https")
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

// wants reports whether the target is to hear of an event.
func (t *Target) wants(c *call.Call, ev *call.Event) bool {
	e := Finished
	if ev.Type == call.EventSuspended {
		e = Suspended
	}
	return (len(t.Events) == 0 || slices.Contains(t.Events, e)) &&
		(len(t.Namespaces) == 0 || slices.Contains(t.Namespaces, c.Namespace)) &&
		(len(t.Tools) == 0 || slices.ContainsFunc(t.Tools, func(g string) bool { return hook.Glob(g, c.Tool) }))
}
