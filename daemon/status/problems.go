package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/toold-dev/toold/sandbox/isolation"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/tool"
)

// Times and sizes at which something becomes a problem.
const (
	certificateSoon = 14 * 24 * time.Hour
	tokenSoon       = 7 * 24 * time.Hour
	diskSoon        = 24 * time.Hour // a problem if the disk will be full within this time, at the pace of the samples
	diskLow         = 1 << 30
	slotsBusy       = 10 * time.Minute
)

// Facts are the input of [Problems]. They concern the daemon and the namespaces of one principal.
type Facts struct {
	Now time.Time

	Hooks       []service.HookState
	Sources     []tool.SourceStatus
	Circuits    []string // sources whose circuit is open
	Quarantined []tool.QuarantinedTool
	Held        int
	DeadLetters map[string]int // by namespace
	Isolation   Isolation

	Full    bool                 // new calls are refused because the disk is full
	Samples []service.LoadSample // oldest first

	Certificate time.Time // end of the listeners' certificate; zero without TLS
	Tokens      []access.Expiring

	Broken   int64 // first broken record of the audit chain; 0 means none was found
	Unsigned error // the newest checkpoint could not be signed
}

// Isolation says which promises of isolation do not hold.
type Isolation struct {
	Off     bool // by configuration, commands are not isolated
	Missing []isolation.NamedFact
}

// Problems returns what is wrong, in any order.
func Problems(f *Facts) []service.Problem {
	var all []service.Problem
	for _, of := range []func(*Facts) []service.Problem{ofHooks, ofSources, ofCircuits, ofQuarantine, ofStored, ofIsolation, ofDisk, ofSlots, ofCredentials, ofAudit} {
		all = append(all, of(f)...)
	}
	return all
}

// everybody has the roles that may list problems.
const everybody = access.Operator | access.Viewer | access.Administrator

func ofHooks(f *Facts) (out []service.Problem) {
	for i := range f.Hooks {
		h := &f.Hooks[i]
		if !h.Failing {
			continue
		}
		out = append(out, service.Problem{
			Code: "HOOK_FAILING", Error: true, Subject: h.Name, Since: h.Since, Count: h.Failed, Detail: h.LastError, DetailFor: access.Administrator,
			Text:   fmt.Sprintf("The hook %s did not answer its latest question.", h.Name),
			Remedy: "Start its program or service again, or change its settings and reload. Until it answers, calls that it should decide about are refused, unless it has on_failure: allow.", Command: "toold hooks",
		})
	}
	return out
}

func ofSources(f *Facts) (out []service.Problem) {
	for i := range f.Sources {
		s := &f.Sources[i]
		down := s.State == tool.SourceDown || s.State == tool.SourceConnecting && s.Error != "" // A source that connects and has an error was down before.
		p := service.Problem{Subject: s.Name, Since: cmp.Or(s.Unready, s.Since), Detail: s.Error, DetailFor: access.Operator | access.Administrator}
		switch {
		case down && strings.HasPrefix(s.Name, "worker:"):
			p.Code, p.Text = "POOL_EMPTY", fmt.Sprintf("No worker of %s is connected, so calls of its tools wait and then fail.", s.Name)
			p.Remedy = "Start a worker of this pool. A worker that is already running reports why it cannot connect."
		case down:
			p.Code, p.Error, p.Text = "SOURCE_DOWN", true, fmt.Sprintf("%s is down after %d attempts, so calls of its tools end with UPSTREAM.", s.Name, s.Starts)
			p.Remedy, p.Command = "Correct the cause of its error. The daemon tries again after a pause, or at once with this command.", "toold tools retry "+s.Name
		case len(s.Refused) > 0:
			p.Code, p.Count, p.Since = "TOOLS_REFUSED", int64(len(s.Refused)), time.Time{}
			p.Text = fmt.Sprintf("%d tools of %s are not offered.", len(s.Refused), s.Name)
			p.Remedy, p.Command = "The list of sources says why. Correct the tools, or give them other names in tools.names.", "toold tools sources"
		default:
			continue
		}
		out = append(out, p)
	}
	return out
}

func ofCircuits(f *Facts) (out []service.Problem) {
	for _, source := range f.Circuits {
		out = append(out, service.Problem{
			Code: "CIRCUIT_OPEN", Error: true, Subject: source, Text: fmt.Sprintf("%s failed repeatedly, so calls of its tools are refused for a time.", source),
			Remedy: "Correct the upstream service. After limits.circuit_open, one call tries it again.",
		})
	}
	return out
}

func ofQuarantine(f *Facts) (out []service.Problem) {
	for i := range f.Quarantined {
		id := f.Quarantined[i].Waiting.Descriptor.ID
		out = append(out, service.Problem{
			Code: "TOOL_QUARANTINED", Subject: id, Text: fmt.Sprintf("The definition of %s changed, so it cannot be called.", id),
			Remedy: "Read the difference, then accept the new definition, or correct it at its source.", Command: "toold tools diff " + id,
		})
	}
	return out
}

func ofStored(f *Facts) (out []service.Problem) {
	if f.Held > 0 {
		out = append(out, service.Problem{
			Code: "CALLS_HELD", Error: true, Count: int64(f.Held), Text: fmt.Sprintf("%d unfinished calls are held, because the store was copied or restored.", f.Held),
			Remedy: "Make sure that no other daemon runs them. Then release or end them.", Command: "toold release --help",
		})
	}
	for namespace, n := range f.DeadLetters {
		out = append(out, service.Problem{
			Code: "DEAD_LETTERS", Subject: namespace, Count: int64(n), Text: fmt.Sprintf("%d actions of the namespace %s failed in all attempts.", n, namespace),
			Remedy: "Correct the causes of their errors, then retry the actions.", Command: "toold documents dead-letters",
		})
	}
	return out
}

func ofIsolation(f *Facts) (out []service.Problem) {
	if f.Isolation.Off {
		return []service.Problem{{
			Code: "ISOLATION_OFF", Text: "Commands are not isolated: they have all rights of the daemon's user.",
			Remedy: "Set bash.profile to a profile that isolates, unless the whole machine is disposable.", Command: "toold sandbox check",
		}}
	}
	for _, fact := range f.Isolation.Missing {
		out = append(out, service.Problem{
			Code: "ISOLATION_MISSING", Error: true, Subject: fact.Name, Detail: fact.Detail, DetailFor: everybody,
			Text:   fmt.Sprintf("The isolation %s does not hold on this machine. Calls that require it end with SANDBOX.", fact.Name),
			Remedy: "Change the machine as the detail says, then reload: the daemon tests the isolation again.", Command: "toold reload",
		})
	}
	return out
}

func ofDisk(f *Facts) []service.Problem {
	const remedy = "Make room on the disk of the store, or keep ended calls for a shorter time with retention.calls."
	if f.Full {
		return []service.Problem{{Code: "DISK_FULL", Error: true, Text: "The disk of the store is full: new calls are refused, and running calls end in reserved space.", Remedy: remedy}}
	}
	if len(f.Samples) == 0 || f.Samples[len(f.Samples)-1].DiskFree < 0 {
		return nil
	}
	first, last := &f.Samples[0], &f.Samples[len(f.Samples)-1]
	if left, ok := timeLeft(first, last); ok && left < diskSoon {
		return []service.Problem{{
			Code: "DISK_FILLING", Text: fmt.Sprintf("The disk of the store has %s left. At the pace of the latest hour it is full in %v; then new calls are refused.", size(last.DiskFree), left.Round(time.Minute)),
			Remedy: remedy,
		}}
	}
	if last.DiskFree < diskLow {
		return []service.Problem{{Code: "DISK_LOW", Text: fmt.Sprintf("The disk of the store has %s left. When it is full, new calls are refused.", size(last.DiskFree)), Remedy: remedy}}
	}
	return nil
}

// timeLeft returns the time until the disk is full, at the pace between two samples. ok is false when the samples are too close or the
// space does not shrink.
func timeLeft(first, last *service.LoadSample) (left time.Duration, ok bool) {
	const enough = 20 * time.Minute // samples of a shorter time show no trend
	passed, used := last.Time.Sub(first.Time), first.DiskFree-last.DiskFree
	if passed < enough || first.DiskFree < 0 || used <= 0 {
		return 0, false
	}
	return time.Duration(float64(passed) * float64(last.DiskFree) / float64(used)), true
}

func size(n int64) string {
	const unit = 1 << 10
	for _, name := range []string{"B", "KiB", "MiB"} {
		if n < unit {
			return fmt.Sprintf("%d %s", n, name)
		}
		n /= unit
	}
	return fmt.Sprintf("%d GiB", n)
}

func ofSlots(f *Facts) []service.Problem {
	n := int(slotsBusy / Interval)
	if len(f.Samples) < n {
		return nil
	}
	for _, s := range f.Samples[len(f.Samples)-n:] {
		if s.Queued == 0 {
			return nil
		}
	}
	return []service.Problem{{
		Code: "SLOTS_BUSY", Since: f.Samples[len(f.Samples)-n].Time, Text: "Calls have waited for a slot for 10 minutes.",
		Remedy: "Find the calls that run long, or raise limits.concurrency if the machine has free capacity.", Command: "toold calls --status running",
	}}
}

func ofCredentials(f *Facts) (out []service.Problem) {
	if end := f.Certificate; !end.IsZero() && end.Before(f.Now.Add(certificateSoon)) {
		p := service.Problem{
			Code: "CERTIFICATE_EXPIRES", Text: "The TLS certificate ends at " + end.UTC().Format(time.RFC3339) + ". Clients then cannot connect.",
			Remedy: "Put the new certificate into the files of tls.cert and tls.key, then reload.", Command: "toold reload",
		}
		if end.Before(f.Now) {
			p.Code, p.Error, p.Text = "CERTIFICATE_EXPIRED", true, "The TLS certificate ended at "+end.UTC().Format(time.RFC3339)+". Clients cannot connect."
		}
		out = append(out, p)
	}
	for _, t := range f.Tokens {
		out = append(out, service.Problem{
			Code: "TOKEN_EXPIRES", Subject: t.Name, Text: fmt.Sprintf("The token %s of %s ends at %s.", t.Name, t.Subject, t.Expires.UTC().Format(time.RFC3339)),
			Remedy: "Create a new token, give it to its user, and then revoke this one.", Command: "toold token create --help",
		})
	}
	return out
}

func ofAudit(f *Facts) (out []service.Problem) {
	if f.Broken > 0 {
		out = append(out, service.Problem{
			Code: "AUDIT_BROKEN", Error: true, Count: f.Broken, Text: fmt.Sprintf("The audit chain is broken at record %d: somebody changed or removed records in the store, or the disk is broken.", f.Broken),
			Remedy: "Keep a copy of the store. Verify the chain with the checkpoints that you keep elsewhere.", Command: "toold audit verify",
		})
	}
	if f.Unsigned != nil {
		out = append(out, service.Problem{
			Code: "AUDIT_UNSIGNED", Error: true, Detail: f.Unsigned.Error(), DetailFor: access.Administrator,
			Text: "The end of the audit chain could not be signed.", Remedy: "Make the file of audit.checkpoints writable for the daemon. The daemon then tries again.",
		})
	}
	return out
}

// ExpiresSoon reports whether a token with this expiry should be replaced now. It returns false for a token that was created for a short
// time, because its end is planned.
func ExpiresSoon(created, expires, now time.Time) bool {
	return expires.Before(now.Add(tokenSoon)) && (created.IsZero() || expires.Sub(created) > 2*tokenSoon)
}
