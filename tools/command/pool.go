package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// A pool holds the persistent programs of a tool. Each program serves only one owner, and one call at a time. So a cancel that kills a
// program affects no other call. An owner also never gets data of another owner, even when a program remembers such data or prints it too
// late.
type pool struct {
	t                *scripted
	instances, calls int
	idle             time.Duration
	slots            chan struct{} // Semaphore with one entry for each program that has not ended, of any owner. Its capacity is the limit for all owners together.

	mu      sync.Mutex
	retired bool
	owners  map[owner]*share
	idlers  []*process // idle programs of all owners, longest idle first
	waiting int        // number of calls that wait because the semaphore slots is full
	running map[*process]bool
	all     sync.WaitGroup
}

// An owner is the principal for whose calls a program was started.
type owner struct{ namespace, subject, onBehalfOf string }

func ownerOf(c *tool.Call) owner { return owner{c.Namespace, c.Caller.Subject, c.OnBehalfOf} }

// A share limits the concurrent calls of one owner. It exists while the owner has calls in the pool.
type share struct {
	slots chan struct{}
	calls int // calls that hold a slot or wait for one
}

func newPool(t *scripted, h *persistent) *pool {
	instances := cmp.Or(h.Instances, defaultInstances)
	return &pool{
		t: t, instances: instances, calls: cmp.Or(h.Calls, defaultCalls), idle: cmp.Or(h.Idle, defaultIdle),
		slots: make(chan struct{}, cmp.Or(h.Total, max(defaultTotal, instances))), owners: map[owner]*share{}, running: map[*process]bool{},
	}
}

// A process is a persistent program.
type process struct {
	pool      *pool
	owner     owner
	secrets   *secrets
	in        *io.PipeWriter
	kill      context.CancelCauseFunc
	over      chan struct{} // closed when the program has ended
	exit      *sandbox.Exit // valid after over is closed
	err       error         // valid after over is closed
	served    int
	idleTimer *time.Timer // timer that ends the program after the idle time

	split splitter // only the goroutine that writes standard output may use it

	mu      sync.Mutex
	current *output // output of the current call; nil between calls
	last    string  // id of the previous call
	words   []byte  // standard error during the current call; for the first call, also what the program wrote at its start
}

// errUnused is the cause of the cancellation when a program is no longer needed.
var errUnused = errors.New("the program is no longer needed")

// execute executes a call with one of the programs.
func (p *pool) execute(ctx context.Context, c *tool.Call, m *memo, secrets *secrets) (*tool.Result, error) {
	text, err := request(c, m)
	if err != nil {
		return nil, neverBegan(err)
	}
	mine := ownerOf(c)
	slots, leave := p.enter(mine)
	defer leave()
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return nil, neverBegan(context.Cause(ctx))
	}
	one := p.take(mine, secrets)
	if one == nil {
		if one, err = p.start(ctx, mine, secrets); err != nil {
			return nil, neverBegan(err)
		}
	}
	r, err := one.serve(ctx, c, m, text)
	p.giveBack(one)
	return r, err
}

// enter returns the semaphore for the calls of an owner. The caller must call leave when the call has ended.
func (p *pool) enter(mine owner) (slots chan struct{}, leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.owners[mine]
	if s == nil {
		s = &share{slots: make(chan struct{}, p.instances)}
		p.owners[mine] = s
	}
	s.calls++
	return s.slots, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if s.calls--; s.calls == 0 {
			delete(p.owners, mine)
		}
	}
}

// take returns an idle program of an owner, or nil when there is none. It ends the idle programs of the owner that were started with other
// secrets.
func (p *pool) take(mine owner, secrets *secrets) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idlers) - 1; i >= 0; i-- {
		one := p.idlers[i]
		if one.owner != mine {
			continue
		}
		p.wakeLocked(i)
		switch {
		case one.ended():
		case one.secrets.equal(secrets):
			return one
		default:
			one.end()
		}
	}
	return nil
}

// wakeLocked removes program i from the idle programs and returns it.
func (p *pool) wakeLocked(i int) *process {
	one := p.idlers[i]
	one.idleTimer.Stop()
	p.idlers = slices.Delete(p.idlers, i, i+1)
	return one
}

// start starts a program. When the semaphore slots is full, it first ends the program that has been idle longest, and waits for a free
// entry.
func (p *pool) start(ctx context.Context, mine owner, secrets *secrets) (*process, error) {
	select {
	case p.slots <- struct{}{}:
		return p.startInSlot(mine, secrets), nil
	default:
	}
	p.wait(1)
	defer p.wait(-1)
	select {
	case p.slots <- struct{}{}:
		return p.startInSlot(mine, secrets), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// wait adds n to the number of waiting calls. When n is positive, it also ends one idle program, so that an entry of the semaphore slots
// becomes free.
func (p *pool) wait(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting += n
	for n > 0 && len(p.idlers) > 0 {
		if one := p.wakeLocked(0); !one.ended() {
			one.end()
			return
		}
	}
}

// startInSlot starts a program. The caller must have put an entry into the semaphore slots; the entry is removed when the program has
// ended.
func (p *pool) startInSlot(mine owner, secrets *secrets) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, w := io.Pipe()
	running, kill := context.WithCancelCause(context.Background())
	one := &process{
		pool: p, owner: mine, secrets: secrets, in: w, kill: kill, over: make(chan struct{}), split: splitter{most: p.t.m.Run.Limits.Output},
	}
	p.running[one] = true
	f, _ := p.t.fill(tool.Arguments{}) // The manifest of a persistent program has no placeholders, so no arguments are needed.
	spec := sandbox.Spec{
		Path: p.t.program, Args: f.args, Dir: p.t.dir, Within: p.t.workspace, Env: p.t.environment(f.env, secrets.env), Handed: secrets.handed, Home: sandbox.FreshHome, Tag: Source + ":" + p.t.m.ID, Policy: p.t.policy,
		Grace: p.t.m.Run.Grace, Stdin: r, Output: one.write,
	}
	p.all.Go(func() {
		one.exit, one.err = p.t.cfg.Exec.Run(running, spec)
		_ = r.Close() // Later writes to the pipe return an error instead of blocking.
		close(one.over)
		<-p.slots
		kill(errUnused)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.running, one)
	})
	return one
}

// giveBack keeps a program for the next call. It ends the program instead when the program has served its maximum number of calls, or when
// another call waits because the maximum number of programs is running.
func (p *pool) giveBack(one *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one.served++
	if one.ended() {
		return
	}
	if p.retired || one.served >= p.calls || p.waiting > 0 {
		one.end()
		return
	}
	p.idlers = append(p.idlers, one)
	one.idleTimer = time.AfterFunc(p.idle, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if i := slices.Index(p.idlers, one); i >= 0 {
			p.wakeLocked(i).end()
		}
	})
}

// retire ends the idle programs. The busy programs end after their current call.
func (p *pool) retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retired = true
	for len(p.idlers) > 0 {
		p.wakeLocked(0).end()
	}
}

// close ends all programs and waits for their end.
func (p *pool) close() {
	p.retire()
	p.mu.Lock()
	for one := range p.running {
		one.end()
	}
	p.mu.Unlock()
	p.all.Wait()
}

func (p *process) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// end closes the standard input of a program. It kills the program when it has not ended within the grace period.
func (p *process) end() {
	_ = p.in.Close() // Close of a pipe writer always returns nil.
	timer := time.AfterFunc(p.pool.t.m.Run.Grace, func() { p.kill(errUnused) })
	go func() { <-p.over; timer.Stop() }() // The goroutine ends with the program.
}

// serve sends one call to the program and returns the outcome.
func (p *process) serve(ctx context.Context, c *tool.Call, m *memo, text []byte) (*tool.Result, error) {
	done := make(chan struct{})
	o := newOutput(p.pool.t, c, m)
	o.done = sync.OnceFunc(func() { close(done) })
	p.turn(o)
	defer p.turn(nil)
	stop := context.AfterFunc(ctx, func() { p.kill(context.Cause(ctx)) }) // A cancel kills the program. This also ends a Write that blocks because the program does not read its input.
	defer stop()
	_, _ = p.in.Write(text) // The error is ignored, because a write fails only when the program has ended or is ending.
	select {
	case <-done:
		if stop() {
			return p.answer(o), nil
		}
		<-p.over
	case <-p.over:
	}
	if o := p.turn(nil); o != nil && o.last != nil && p.exit != nil { // The program ended after it printed the line that ends the call, so the result is complete.
		return p.pool.t.report(o.last.result(), p.exit), nil
	}
	return p.lost(ctx)
}

// answer returns the result of a call whose program has printed the line that ends the call.
func (p *process) answer(*output) *tool.Result {
	return p.turn(nil).last.result()
}

// turn makes o the output that gets the next lines, and returns the previous output.
func (p *process) turn(o *output) *output {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.current
	if before != nil {
		p.last = requestID(before.call)
	}
	if o != nil && p.last != "" {
		p.words = nil // Drops what the program wrote to standard error during the previous call.
	}
	p.current = o
	return before
}

// lost returns the outcome of a call whose program ended before it printed the line that ends the call.
func (p *process) lost(ctx context.Context) (*tool.Result, error) {
	t := p.pool.t
	switch {
	case p.exit == nil && ctx.Err() != nil:
		return nil, neverBegan(context.Cause(ctx))
	case p.exit == nil:
		return nil, t.notStarted(p.err)
	case ctx.Err() != nil:
		return &tool.Result{Status: tool.StatusError, Process: processReport(p.exit)}, context.Cause(ctx)
	}
	if bad, ok := errors.AsType[*protocolError](p.err); ok {
		return t.report(bad.result(), p.exit), nil
	}
	how := fmt.Sprintf("exit code %d", p.exit.Code)
	if p.exit.Signal != "" {
		how = p.exit.Signal
	}
	o := &output{words: p.words}
	if why := p.exit.OutOfMemory(); why != "" {
		return t.report(tool.FailCode(sandbox.ReasonOOM, "The program ran out of memory before it answered. %s It ended with %s.%s", why, how, o.lastWords()), p.exit), nil
	}
	return t.report(tool.FailCode("PROGRAM_ENDED", "The program ended before it answered, with %s.%s", how, o.lastWords()), p.exit), nil
}

// write is the Output function of the program's [sandbox.Spec].
func (p *process) write(stream string, chunk []byte) error {
	if stream == "stdout" {
		return p.split.write(chunk, p.line)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.words = append(p.words, chunk...)
	p.words = p.words[max(0, len(p.words)-maxWords):]
	if p.current == nil {
		return nil
	}
	return p.current.call.Output(stream, chunk)
}

// line passes a line to the current call. A line of JSON must contain the id of this call.
func (p *process) line(text []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.current
	switch {
	case len(text) == 0:
		return nil
	case text[0] != '{' && o != nil:
		return o.line(text)
	case text[0] != '{':
		return nil
	}
	l, err := p.split.parse(text)
	switch {
	case err != nil:
		return err
	case o != nil && l.ID == requestID(o.call):
		if o.last != nil {
			return nil // Lines that come after the end of their call are ignored.
		}
		return o.take(l)
	case l.ID != "" && l.ID == p.last:
		return nil
	}
	return &protocolError{"BAD_LINE", fmt.Sprintf("printed a line for the call %q, which it never received", l.ID)}
}
