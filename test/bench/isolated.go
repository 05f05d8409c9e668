package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/toold-dev/toold/sandbox"
)

// aside is the number of processes that one side starts in a turn. turns is the number of turns of each side in a round. Turns are short,
// because the speed of the machine can change by 20 % within a second.
const (
	aside = 20
	turns = 12
)

// isolated compares the program `true` under the default isolation profile with a plain exec of the same program. The process that starts
// them has a heap of 1 GiB.
func isolated(ctx context.Context, s *settings) (result, error) {
	heap := make([]byte, 1<<30)
	for i := 0; i < len(heap); i += os.Getpagesize() {
		heap[i] = 1
	}
	dir, err := os.MkdirTemp(s.dir, "workspace")
	if err != nil {
		return result{}, err
	}
	a, b, err := sides(ctx, s, &sandbox.Policy{Workspace: dir})
	if err != nil {
		return result{}, err
	}
	_ = heap[len(heap)-1]
	return result{
		value: fmt.Sprintf("+%.1f ms", (a.p50-b.p50).Seconds()*1e3),
		detail: fmt.Sprintf("p50 %v and %v, CPU %v and %v a run", a.p50.Round(10*time.Microsecond), b.p50.Round(10*time.Microsecond),
			a.cpu.Round(10*time.Microsecond), b.cpu.Round(10*time.Microsecond)),
	}, nil
}

// subprocess compares a process started by package sandbox, without isolation, with one started by os/exec.
func subprocess(ctx context.Context, s *settings) (result, error) {
	a, b, err := sides(ctx, s, nil)
	return result{
		ratios: []float64{float64(b.p50) / float64(a.p50)},
		detail: fmt.Sprintf("p50 %v and %v", a.p50.Round(10*time.Microsecond), b.p50.Round(10*time.Microsecond)),
	}, err
}

// sides runs `true` alternately with a sandbox runner and with os/exec and pipes.
func sides(ctx context.Context, s *settings, policy *sandbox.Policy) (ours, plain sample, err error) {
	if err := sandbox.BecomeSubreaper(); err != nil { // as in the daemon
		return ours, plain, err
	}
	helper := filepath.Join(s.dir, "toold-sandbox")
	if err := goBuild(ctx, filepath.Join("cmd", "toold-sandbox"), helper); err != nil {
		return ours, plain, err
	}
	r, err := sandbox.New(sandbox.Config{Owner: fmt.Sprintf("bench-%d", os.Getpid()), StateDir: filepath.Join(s.dir, "processes"), Helper: helper})
	if err != nil {
		return ours, plain, err
	}
	defer r.Close()
	spec := sandbox.Spec{Path: "/bin/true", Dir: "/", Home: "bench", Policy: policy, Output: func(string, []byte) error { return nil }}
	run := func() error {
		exit, err := r.Run(ctx, spec)
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("true ended with %d, %s", exit.Code, exit.Signal)
		}
		return err
	}
	exec := func() error {
		cmd := exec.CommandContext(ctx, "/bin/true")
		cmd.Stdout, cmd.Stderr = io.MultiWriter(), io.MultiWriter() // not files, so os/exec makes two pipes with a goroutine each
		return cmd.Run()
	}
	var times [2][]time.Duration
	var cpu [2]time.Duration
	for range s.rounds * turns {
		for side, do := range []func() error{run, exec} {
			before := usedByAll()
			for range aside {
				began := time.Now()
				if err := do(); err != nil {
					return ours, plain, err
				}
				times[side] = append(times[side], time.Since(began))
			}
			cpu[side] += usedByAll() - before
		}
	}
	for side, of := range []*sample{&ours, &plain} {
		slices.Sort(times[side])
		of.p50, of.cpu = times[side][len(times[side])/2], cpu[side]/time.Duration(len(times[side]))
	}
	return ours, plain, nil
}

// usedByAll returns the processor time of this process and of all children that it has waited for.
func usedByAll() (used time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			used += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return used
}
