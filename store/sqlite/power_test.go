package sqlite_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/store/sqlite/faultfs"
)

// A fate is one way in which the power fails. It decides for each operation that is not synced whether it survives.
type fate struct {
	name   string
	killed bool // Only the process died, so nothing is lost.
	choose func(rng *rand.Rand, pending int) func(faultfs.Op) faultfs.Survival
}

func fates() []fate {
	all := func(lost bool) func(*rand.Rand, int) func(faultfs.Op) faultfs.Survival {
		return func(*rand.Rand, int) func(faultfs.Op) faultfs.Survival {
			return func(faultfs.Op) faultfs.Survival { return faultfs.Survival{Lost: lost} }
		}
	}
	torn := func(block int) func(*rand.Rand, int) func(faultfs.Op) faultfs.Survival {
		return func(rng *rand.Rand, _ int) func(faultfs.Op) faultfs.Survival {
			return func(faultfs.Op) faultfs.Survival {
				bits := rng.Uint64()
				return faultfs.Survival{Sectors: func(sector int) bool { return bits>>(sector/(block/faultfs.SectorSize)%64)&1 == 1 }}
			}
		}
	}
	return []fate{
		{"kept", true, all(false)},
		{"dropped", false, all(true)},
		{"torn at 512", false, torn(512)},
		{"torn at 4096", false, torn(4096)},
		{"reordered", false, func(rng *rand.Rand, _ int) func(faultfs.Op) faultfs.Survival {
			return func(faultfs.Op) faultfs.Survival { return faultfs.Survival{Lost: rng.IntN(2) == 0} }
		}},
		{"one dropped", false, func(rng *rand.Rand, pending int) func(faultfs.Op) faultfs.Survival {
			n := rng.IntN(pending)
			return func(faultfs.Op) faultfs.Survival { n--; return faultfs.Survival{Lost: n == -1} }
		}},
		{"one kept", false, func(rng *rand.Rand, pending int) func(faultfs.Op) faultfs.Survival {
			n := rng.IntN(pending)
			return func(faultfs.Op) faultfs.Survival { n--; return faultfs.Survival{Lost: n != -1} }
		}},
	}
}

// An outage is a power failure at one moment, with the range of states that the journal may have after it.
type outage struct {
	at     int // number of operations before it
	fate   string
	files  faultfs.Files
	floor  int // the oldest step that the journal may show
	newest int // the newest step that the journal may show
	epoch  int64
	clock  call.Stamp
}

// known holds what a user of the journal knows, from the marks that were read so far in the log.
type known struct {
	full, any, submitted int
	epoch                int64
	clock                call.Stamp
}

func (k *known) take(m mark) {
	k.submitted = max(k.submitted, m.commit)
	if m.acked {
		k.any = max(k.any, m.commit)
	}
	if m.acked && m.full {
		k.full = max(k.full, k.any) // An fsync makes all earlier writes durable.
		k.epoch, k.clock = max(k.epoch, m.epoch), call.StampOf(m.clock)
	}
}

// outages invokes visit for every sampled moment of a log and every fate, until visit returns false. It skips an outage that has the same
// files and allows the same states as an earlier one.
func outages(base faultfs.Files, log []faultfs.Op, rng *rand.Rand, sampled func(at int) bool, visit func(outage) (more bool)) (moments int) {
	power := faultfs.NewPower(base)
	var k known
	seen := map[[32]byte]bool{}
	for n := 0; n <= len(log); n++ {
		for _, f := range fates() {
			pending := power.Pending()
			if pending == 0 && !f.killed {
				continue
			}
			moments++
			if !sampled(n) {
				continue
			}
			o := outage{at: n, fate: f.name, files: power.Cut(f.choose(rng, pending)), floor: k.full, newest: k.submitted, epoch: k.epoch, clock: k.clock}
			if f.killed {
				o.floor = k.any
			}
			if sum := o.sum(); !seen[sum] {
				seen[sum] = true
				if !visit(o) {
					return moments
				}
			}
		}
		if n < len(log) {
			if m, ok := log[n].Mark.(mark); ok {
				k.take(m)
			}
			power.Do(log[n])
		}
	}
	return moments
}

func (o outage) sum() (sum [32]byte) {
	h := sha256.New()
	fmt.Fprint(h, o.floor, o.newest, o.epoch)
	for _, name := range slices.Sorted(maps.Keys(o.files)) {
		fmt.Fprint(h, name, len(o.files[name]))
		h.Write(o.files[name])
	}
	return [32]byte(h.Sum(nil))
}

// reopen opens the files that an outage leaves. It returns the disk operations of the recovery, and an error when the state of the journal
// is wrong.
func (o outage) reopen(t *testing.T, dir string, states []string) (log []faultfs.Op, wrong error) {
	t.Helper()
	if err := o.files.WriteTo(dir); err != nil {
		t.Fatal(err)
	}
	disk, err := faultfs.New(faultfs.Config{Dir: dir, Record: true, SkipSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	defer disk.Close()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, Now: func() time.Time { return scriptStart.Add(-time.Hour) }})
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer s.Close()
	_, log = disk.Log()
	if err := s.Check(t.Context()); err != nil {
		return log, fmt.Errorf("check: %w", err)
	}
	if id := s.Identity(); id.Epoch <= o.epoch {
		return log, fmt.Errorf("epoch %d again, after %d", id.Epoch, o.epoch)
	}
	if now := s.Now(); now < o.clock {
		return log, fmt.Errorf("the clock went back from %v to %v", o.clock, now)
	}
	got := state(t, s)
	for n := o.newest; n >= max(o.floor, 0); n-- {
		if n < len(states) && states[n] == got {
			return log, nil
		}
	}
	if at := slices.Index(states, got); at >= 0 {
		return log, fmt.Errorf("it is at step %d, acknowledged was %d", at, o.floor)
	}
	return log, fmt.Errorf("its content is that of no step:\n%s", firstDifference(states[min(max(o.floor, 0), len(states)-1)], got))
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("want %.300s\ngot  %.300s", w[i], g[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// record runs the story on a recorded disk.
func record(t *testing.T) (states []string, base faultfs.Files, log []faultfs.Op) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	disk, err := faultfs.New(faultfs.Config{Dir: dir, Record: true})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	sc := newStory(t, disk, dir)
	sc.run()
	base, log = disk.Log() // Take the log before Close, because Close ends the journal cleanly. The log must end as after a kill.
	if err := sc.s.Close(); err != nil {
		t.Fatal(err)
	}
	return sc.states, base, log
}

// birth is how many operations it takes until the database has its first page. The test simulates an outage after each of these operations.
const birth = 10

// TestPowerLoss (P1, T85, T109) simulates a power failure after every recorded write. The operations that are not synced are kept, dropped,
// torn or reordered. The journal must then have the state after the last acknowledged step, or after a later step. A normal run tests a
// sample of the outages, some of them during the recovery from another outage. The nightly run tests all.
func TestPowerLoss(t *testing.T) {
	states, base, log := record(t)
	seed := powerSeed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	sample, rounds, deep, within := 0.02, 1, 0.05, 0.03
	if os.Getenv("TOOLD_NIGHTLY") != "" {
		sample, rounds, deep, within = 1, 3, 0.01, 1
	}
	root := t.TempDir()
	var moments, opened, recoveries, failed int
	look := func(o outage, why string) []faultfs.Op {
		opened++
		recovery, wrong := o.reopen(t, filepath.Join(root, fmt.Sprint("i", opened)), states)
		if wrong != nil {
			failed++
			t.Errorf("seed %d: power lost after %d of %d operations, %s%s: %v", seed, o.at, len(log), o.fate, why, wrong)
		}
		return recovery
	}
	for range rounds {
		moments += outages(base, log, rng, func(at int) bool { return at <= birth || rng.Float64() < sample }, func(o outage) bool {
			recovery := look(o, "")
			if rng.Float64() >= deep {
				return true
			}
			outages(o.files, recovery, rng, func(int) bool { return rng.Float64() < within }, func(in outage) bool {
				recoveries++
				in.floor, in.newest, in.epoch, in.clock = o.floor, o.newest, o.epoch, o.clock
				look(in, fmt.Sprintf("; again after %d operations of the recovery, %s", in.at, in.fate))
				return failed < 10
			})
			return failed < 10
		})
	}
	t.Logf("ran: power loss: %d operations in %d steps, %d outages, %d opened, %d of them in a recovery; seed %d", len(log), len(states), moments, opened, recoveries, seed)
}

func powerSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("TOOLD_POWER_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano()) & 0xffffffff
	}
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPowerLossSeesLies checks that the power loss test would detect a journal that acknowledges more than its disk has stored.
func TestPowerLossSeesLies(t *testing.T) {
	states, base, log := record(t)
	without := func(unwanted func(faultfs.Op) bool) []faultfs.Op {
		return slices.DeleteFunc(slices.Clone(log), unwanted)
	}
	promised := slices.Clone(log)
	for i, op := range promised {
		if m, ok := op.Mark.(mark); ok && m.acked {
			m.full = true
			promised[i].Mark = m
		}
	}
	syncOf := func(name string) func(faultfs.Op) bool {
		first := true
		return func(op faultfs.Op) bool {
			if op.Kind != faultfs.Sync || op.Name != name {
				return false
			}
			defer func() { first = false }()
			return !first
		}
	}
	lies := map[string][]faultfs.Op{
		"no fsync of the log":                without(syncOf("journal.db-wal")),
		"no fsync of the database":           without(syncOf("journal.db")),
		"NORMAL acknowledged as FULL":        promised,
		"acknowledged before it was written": acknowledgedEarly(log),
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 1))
			root := t.TempDir()
			opened, seen := 0, error(nil)
			outages(base, lie, rng, func(int) bool { return rng.IntN(20) == 0 }, func(o outage) bool {
				opened++
				_, seen = o.reopen(t, filepath.Join(root, fmt.Sprint("i", opened)), states)
				return seen == nil
			})
			if seen == nil {
				t.Errorf("%d outages were opened and nothing is wrong", opened)
			} else {
				t.Logf("seen in outage %d: %.200v", opened, seen)
			}
		})
	}
}

// acknowledgedEarly changes a log so that each step is acknowledged when it is submitted.
func acknowledgedEarly(log []faultfs.Op) (early []faultfs.Op) {
	for _, op := range log {
		early = append(early, op)
		if m, ok := op.Mark.(mark); ok && !m.acked {
			early = append(early, faultfs.Op{Kind: faultfs.Mark, Mark: mark{commit: m.commit, acked: true, full: true}})
		}
	}
	return early
}
