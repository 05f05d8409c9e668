package sqlite_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/store/sqlite/faultfs"
)

// A diskFault describes a failure of the disk. It happens at the n-th operation, once or from then on.
type diskFault struct {
	n     int64
	fault faultfs.Fault
	once  bool
	syncs bool // Count only sync operations.
}

func (b diskFault) String() string {
	what := map[bool]string{false: "operation", true: "fsync"}[b.syncs]
	return fmt.Sprintf("%s at %s %d, once: %t", [...]string{"nothing", "EIO", "ENOSPC"}[b.fault], what, b.n, b.once)
}

// A trial uses a journal on a failing disk, and records which changes the journal acknowledged.
type trial struct {
	t          *testing.T
	blow       diskFault
	dir        string
	operations atomic.Int64

	struck         atomic.Pointer[faultfs.Op] // the first operation that failed
	acked, durable map[string][2]int64        // acked: last acknowledged state of each call; durable: last state that a Full change has made durable
	tried          map[string]int64
	outcomes       map[string]int
	fatal          bool
}

func (tr *trial) fail(op faultfs.Op) faultfs.Fault {
	if tr.blow.syncs && op.Kind != faultfs.Sync {
		return faultfs.None
	}
	n := tr.operations.Add(1)
	if n == tr.blow.n || n > tr.blow.n && !tr.blow.once && tr.blow.n > 0 {
		tr.struck.CompareAndSwap(nil, &faultfs.Op{Kind: op.Kind, Name: op.Name, Offset: op.Offset})
		return tr.blow.fault
	}
	return faultfs.None
}

func (tr *trial) errorf(format string, args ...any) {
	tr.t.Helper()
	tr.t.Errorf("%v, which was %v: %s", tr.blow, tr.struck.Load(), fmt.Sprintf(format, args...))
}

// try commits a change, up to three times when the disk is full. It reports whether the change was acknowledged.
func (tr *trial) try(s *sqlite.Store, c *store.Change) bool {
	tr.t.Helper()
	id := c.Call.ID
	for range 3 {
		err := s.Commit(tr.t.Context(), c)
		switch {
		case err == nil:
			tr.outcomes["acknowledged"]++
			tr.acked[id] = [2]int64{c.Call.Revision, c.Call.LastSequence}
			tr.tried[id] = c.Call.Revision
			if c.Durability == store.Full {
				tr.durable = maps.Clone(tr.acked)
			}
			if tr.fatal {
				tr.errorf("acknowledged after ErrFatal")
			}
			return true
		case errors.Is(err, store.ErrFatal):
			tr.outcomes["ErrFatal"]++
			if tr.tried[id] = c.Call.Revision; tr.fatal {
				tr.tried[id]-- // Do not count this try: the store refused the change without trying to write it.
			}
			tr.fatal = true
			return false
		case errors.Is(err, store.ErrFull):
			tr.outcomes["ErrFull"]++
		case errors.Is(err, store.ErrCorrupt) && tr.cannotRead():
			tr.outcomes["ErrCorrupt"]++
		default:
			tr.errorf("Commit = %v, want ErrFull or ErrFatal", err)
		}
	}
	return false
}

// runCalls takes calls through their whole life: they start, wait, are decided and end. It also makes a checkpoint and a trim.
func (tr *trial) runCalls() {
	s, err := sqlite.Open(tr.t.Context(), sqlite.Config{Dir: tr.dir, Now: func() time.Time { return scriptStart }})
	if err != nil {
		tr.outcomes["did not open"]++
		return
	}
	defer s.Close()
	atOpen := tr.struck.Load()
	for n := range 6 {
		c := newCall(fmt.Sprint("c", n))
		for change := creation(c); ; change = advance(c, n) {
			if n%2 == 1 && c.Revision%2 == 1 {
				change.Durability = store.Normal
			}
			if !tr.try(s, change) || c.Status.Terminal() {
				break
			}
		}
		switch n {
		case 2:
			tr.admin(s.Checkpoint())
		case 3:
			_, err := s.Trim(tr.t.Context(), call.StampOf(scriptStart.Add(-time.Hour)), 0, 0, 10)
			tr.admin(err)
		}
	}
	if at := tr.struck.Load(); tr.blow.once && tr.blow.fault == faultfs.NoSpace && at != nil && at.Kind == faultfs.Write && tr.fatal {
		tr.errorf("a disk that was full once ended the store")
	}
	if at := tr.struck.Load(); at != nil && atOpen == nil && at.Kind == faultfs.Sync && !tr.fatal {
		tr.errorf("the journal goes on after a failed fsync")
	}
}

func (tr *trial) admin(err error) {
	tr.t.Helper()
	switch {
	case errors.Is(err, store.ErrFatal):
		tr.fatal = true
	case err != nil && !errors.Is(err, store.ErrFull) && !(errors.Is(err, store.ErrCorrupt) && tr.cannotRead()):
		tr.errorf("%v, want ErrFull or ErrFatal", err)
	}
}

// cannotRead reports whether ErrCorrupt is allowed: a read failed, or all later operations fail.
func (tr *trial) cannotRead() bool {
	at := tr.struck.Load()
	return at != nil && at.Kind == faultfs.Read || !tr.blow.once
}

// runTrial calls runCalls on a failing disk. It then checks the files that the end of the process would leave, and the files that a power loss
// would leave.
func runTrial(t *testing.T, root string, b diskFault) *trial {
	t.Helper()
	tr := &trial{t: t, blow: b, dir: filepath.Join(root, fmt.Sprint(b.n, b.fault, b.once)), acked: map[string][2]int64{}, durable: map[string][2]int64{}, tried: map[string]int64{}, outcomes: map[string]int{}}
	defer os.RemoveAll(tr.dir)
	disk, err := faultfs.New(faultfs.Config{Dir: tr.dir, Record: true, SkipSync: true, Fail: tr.fail})
	if err != nil {
		t.Fatal(err)
	}
	tr.runCalls()
	disk.Close()
	base, log := disk.Log()
	power := faultfs.NewPower(base)
	for _, op := range log {
		power.Do(op)
	}
	tr.inspect(tr.dir, "the process died", tr.acked)
	dark := tr.dir + "-dark"
	defer os.RemoveAll(dark)
	if err := power.Cut(func(faultfs.Op) faultfs.Survival { return faultfs.Survival{Lost: true} }).WriteTo(dark); err != nil {
		t.Fatal(err)
	}
	tr.inspect(dark, "the power went", tr.durable)
	return tr
}

func (tr *trial) inspect(dir, why string, acked map[string][2]int64) {
	tr.t.Helper()
	s, err := sqlite.Open(tr.t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		tr.errorf("%s: Open = %v", why, err)
		return
	}
	defer s.Close()
	verify(tr.t, fmt.Sprintf("%v, which was %v; %s", tr.blow, tr.struck.Load(), why), s, acked, tr.tried)
	if err := s.Commit(tr.t.Context(), creation(newCall("later"))); err != nil {
		tr.errorf("%s: Commit = %v", why, err)
	}
}

// TestDiskFails (P7) makes the disk return EIO or ENOSPC at its n-th operation, for every n up to the number of operations that runCalls needs.
// It checks four things:
//
//   - Acknowledged changes are stored.
//   - Changes that were refused because of missing space are not stored.
//   - After a full disk, the store tries again.
//   - After any other failure the store acknowledges nothing more.
//
// A normal run fails every fsync and a sample of the other operations. The nightly run fails all of them.
func TestDiskFails(t *testing.T) {
	root := t.TempDir()
	calm, synced := runTrial(t, root, diskFault{}), runTrial(t, root, diskFault{syncs: true})
	if calm.outcomes["acknowledged"] != 30 {
		t.Fatalf("without a failure: %v", calm.outcomes)
	}
	sample, seed := 0.01, powerSeed(t)
	if os.Getenv("TOOLD_NIGHTLY") != "" {
		sample = 1
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	outcomes, trials := map[string]int{}, 0
	try := func(b diskFault) {
		trials++
		for k, v := range runTrial(t, root, b).outcomes {
			outcomes[k] += v
		}
	}
	for n := int64(1); n <= synced.operations.Load(); n++ {
		try(diskFault{n, faultfs.IOError, true, true})
	}
	for n := int64(1); n <= calm.operations.Load(); n++ {
		for _, fault := range []faultfs.Fault{faultfs.IOError, faultfs.NoSpace} {
			for _, once := range []bool{true, false} {
				if rng.Float64() < sample {
					try(diskFault{n, fault, once, false})
				}
			}
		}
	}
	t.Logf("ran: failing disk: %d trials of %d operations: %v; seed %d", trials, calm.operations.Load(), outcomes, seed)
}
