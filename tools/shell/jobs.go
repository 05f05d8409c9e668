package shell

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// Background configures the commands that may continue after their call.
type Background struct {
	// Exec runs the commands. Nil means that no command can run in the background.
	Exec Exec
	// Lifetime is the maximum time that such a command runs. Zero means 1 hour.
	Lifetime time.Duration
	// Each is the maximum number of commands that run for one thread; zero means 8. All is the maximum number of commands that are kept in
	// total, including those that have ended; zero means 64.
	Each, All int
	// Log is the minimum number of bytes of the newest output that are kept for each command; at most twice as many are kept. Zero means
	// 128 KiB.
	Log int
	// Clean returns a Cleaner for one stream of output. It is needed because the filters of a call do not see the output of a background
	// command. Nil means that secrets stay in the output.
	Clean func() Cleaner
}

// A Cleaner removes secrets from a text that arrives in chunks. Next may keep the end of a chunk, because a secret may continue in the next
// chunk. The next call of Next, or End, returns the kept part.
type Cleaner interface {
	Next(chunk []byte) []byte
	End() []byte
}

func (b *Background) fill() {
	b.Lifetime = cmp.Or(b.Lifetime, time.Hour)
	b.Each, b.All = cmp.Or(b.Each, 8), cmp.Or(b.All, 64)
	b.Log = cmp.Or(b.Log, 128<<10)
}

// Reasons for the end of a background shell.
var (
	errKilled   = errors.New("it was killed by bash_kill")
	errRunEnded = errors.New("its run ended")
	errStopping = errors.New("the daemon stops")
	errLifetime = errors.New("its time limit was reached")
)

// Jobs manages the commands that run in the background. A job belongs to the caller and the thread that started it. Calls of other callers,
// persons and threads cannot find it.
type Jobs struct {
	cfg Background

	mu     sync.Mutex
	closed bool
	jobs   []*job // ordered by start
}

// owner identifies the caller and the thread of a job. run is set only when there is no thread.
type owner struct{ namespace, caller, onBehalfOf, thread, run string }

func ownerOf(c *tool.Call) owner {
	o := owner{c.Namespace, c.Caller.Subject, c.OnBehalfOf, c.Run.Thread, ""}
	if o.thread == "" {
		o.run = c.Run.ID
	}
	return o
}

// A job is one command that may continue after its call.
type job struct {
	id      string
	owner   owner
	run     string // run whose end kills the job
	call    string // call that started the job
	command string
	began   time.Time
	cancel  context.CancelCauseFunc
	control *sandbox.Control
	keys    *keys // nil when the job takes no input
	started chan struct{}
	ended   chan struct{}

	mu       sync.Mutex
	log      log
	clean    map[string]Cleaner
	attached func(stream string, chunk []byte) error // gets the output until detach is called; nil afterwards
	read     int64                                   // offset up to which the caller has read the output
	more     chan struct{}                           // closed and replaced when new output arrives
	exit     *sandbox.Exit                           // valid after ended is closed
	err      error
}

// start runs a command for a call. It passes the output to attached until detach is called.
func (j *Jobs) start(call *tool.Call, command string, spec sandbox.Spec, limit time.Duration, attached func(string, []byte) error) (*job, error) {
	ctx, cancel := context.WithCancelCause(context.Background()) // This context is independent of the call. It ends when the job is cancelled, for example by Close.
	n := &job{
		id: "sh-" + strings.ToLower(rand.Text()[:10]), owner: ownerOf(call), run: call.Run.ID, call: call.ID, command: command, began: time.Now(),
		cancel: cancel, control: spec.Control, started: make(chan struct{}), ended: make(chan struct{}),
		log: log{most: j.cfg.Log}, clean: map[string]Cleaner{}, attached: attached, more: make(chan struct{}),
	}
	if in, ok := spec.Stdin.(*keys); ok {
		n.keys = in
	}
	if err := j.admit(n); err != nil {
		cancel(err)
		return nil, err
	}
	spec.Started = func() { close(n.started) }
	spec.Output = func(stream string, chunk []byte) error { return n.output(j.cfg.Clean, stream, chunk) }
	go func() {
		timed, stop := context.WithTimeoutCause(ctx, limit, errLifetime)
		defer stop()
		exit, err := j.cfg.Exec.Run(timed, spec)
		n.finish(exit, err)
	}()
	return n, nil
}

// admit adds a job, within the limits. When All jobs are kept, it first removes the oldest job that has ended.
func (j *Jobs) admit(n *job) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return &tool.Error{Code: tool.ResourceExhausted, Reason: "DRAINING", Message: "The daemon is stopping; nothing can be started in the background."}
	}
	running := 0
	for _, o := range j.jobs {
		if o.owner == n.owner && !o.over() {
			running++
		}
	}
	if running >= j.cfg.Each {
		return &tool.Error{Code: tool.ResourceExhausted, Reason: "BACKGROUND_SHELLS",
			Message: "This conversation has too many background shells. End one with bash_kill first."}
	}
	if len(j.jobs) >= j.cfg.All {
		i := slices.IndexFunc(j.jobs, (*job).over)
		if i < 0 {
			return &tool.Error{Code: tool.ResourceExhausted, Reason: "BACKGROUND_SHELLS", Retryable: true, Message: "Too many shells run in the background. Try again later."}
		}
		j.jobs = slices.Delete(j.jobs, i, i+1)
	}
	j.jobs = append(j.jobs, n)
	return nil
}

func (j *Jobs) forget(n *job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.jobs = slices.DeleteFunc(j.jobs, func(o *job) bool { return o == n })
}

// find returns the job with this id if it belongs to the owner of call.
func (j *Jobs) find(call *tool.Call, id string) (*job, error) {
	for _, n := range j.of(call) {
		if n.id == id {
			return n, nil
		}
	}
	return nil, &tool.Error{Code: tool.ExecutionFailed, Reason: "NO_SUCH_SHELL", Message: "There is no shell " + quoted(id) + " in the background of this conversation."}
}

// of returns the jobs that belong to the owner of call, oldest first.
func (j *Jobs) of(call *tool.Call) []*job {
	o := ownerOf(call)
	return j.where(func(n *job) bool { return n.owner == o })
}

func (j *Jobs) where(holds func(*job) bool) (found []*job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, n := range j.jobs {
		if holds(n) {
			found = append(found, n)
		}
	}
	return found
}

// EndRun starts to end the shells that calls of a run started. It does not wait for their end, which takes a few seconds at most.
func (j *Jobs) EndRun(namespace, run string) {
	for _, n := range j.where(func(n *job) bool { return n.owner.namespace == namespace && n.run == run }) {
		n.cancel(errRunEnded)
	}
}

// PurgeCalls starts to end the shells that these calls started, and deletes their stored output. It does not wait for their end.
func (j *Jobs) PurgeCalls(namespace string, ids []string) {
	for _, n := range j.where(func(n *job) bool { return n.owner.namespace == namespace && slices.Contains(ids, n.call) }) {
		n.cancel(errKilled)
		j.forget(n)
	}
}

// Running returns the number of shells that still run.
func (j *Jobs) Running() int { return len(j.where(func(n *job) bool { return !n.over() })) }

// Close ends all shells, rejects new ones, and returns when their processes are dead or ctx is done.
func (j *Jobs) Close(ctx context.Context) {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	all := j.where(func(*job) bool { return true })
	for _, n := range all {
		n.cancel(errStopping)
	}
	for _, n := range all {
		select {
		case <-n.ended:
		case <-ctx.Done():
			return
		}
	}
}

func (n *job) over() bool {
	select {
	case <-n.ended:
		return true
	default:
		return false
	}
}

// output cleans a chunk and stores it. Until detach is called, it also passes the original chunk to the call that started the job.
func (n *job) output(clean func() Cleaner, stream string, chunk []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	kept := chunk
	if clean != nil {
		if n.clean[stream] == nil {
			n.clean[stream] = clean()
		}
		kept = n.clean[stream].Next(chunk)
	}
	n.keepLocked(kept)
	if n.attached != nil {
		return n.attached(stream, chunk)
	}
	return nil
}

func (n *job) keepLocked(b []byte) {
	if len(b) == 0 {
		return
	}
	n.log.write(b)
	close(n.more)
	n.more = make(chan struct{})
}

// detach ends the connection between a job and the call that started it: output no longer goes to the call, and the output so far counts as
// read.
func (n *job) detach() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.attached, n.read = nil, n.log.total
}

func (n *job) finish(exit *sandbox.Exit, err error) {
	n.mu.Lock()
	for _, name := range []string{stdout, stderr, pty} {
		if c := n.clean[name]; c != nil {
			n.keepLocked(c.End())
		}
	}
	n.exit, n.err, n.attached = exit, err, nil
	n.mu.Unlock()
	if n.keys != nil {
		n.keys.close()
	}
	n.cancel(nil)
	close(n.ended)
}
