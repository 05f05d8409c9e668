// Command demo shows toold's main job from beginning to end with a real daemon on free ports, a new store, a workspace of real files, the
// real command line and the real gRPC API.
//
// The demo does not trust the daemon's answers. It checks each claim of a step independently: in the files, in the process table, or in the
// record after the daemon was killed. The first false claim ends the demo with exit code 1. The demo leaves no process behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// limit is the longest time for the whole demo.
const limit = time.Minute

// A step demonstrates one feature of toold. Its error says which claim did not hold.
type step struct {
	title string
	play  func(*stage, context.Context) error
	shown bool // docs/tutorials/approval.md shows its commands
}

// steps returns the steps of the main job, in order.
func steps() []step {
	return []step{
		{title: "Which tools there are", play: (*stage).listTools},
		{title: "A call that needs nobody: grep", play: (*stage).grep, shown: true},
		{title: "A call that needs a yes, and streams: bash", play: (*stage).streamBash},
		{title: "A call that outlives the daemon: edit, kill -9, approve", play: (*stage).editAcrossCrash, shown: true},
		{title: "Three calls of one turn, of which one waits: batch, kill -9, approve", play: (*stage).batchAcrossCrash, shown: true},
		{title: "An agent with a model: kill -9 of both while it waits, approve", play: (*stage).agent},
		{title: "A question to a person: ask_user", play: (*stage).askUser},
		{title: "A no: declined, and never run", play: (*stage).decline},
		{title: "A yes to something else: approved with edited arguments", play: (*stage).approveEdited},
		{title: "A lost connection, and a cancel that leaves no double-forked child behind", play: (*stage).reattachAndCancel},
		{title: "More output than a model can read: it pages and searches", play: (*stage).page},
		{title: "The same call id twice: one execution", play: (*stage).sameCallTwice},
		{title: "In a room of its own: a file of the host, a listener on it: bash", play: (*stage).isolated},
		{title: "A server's tool that asks: MCP", play: (*stage).mcpQuestion},
		{title: "A function in another language: a worker in Python", play: (*stage).pythonWorker},
	}
}

func main() {
	bin := flag.String("toold", "bin/toold", "the daemon and command line to show")
	name := flag.String("page", "", "`page` that has to show the session as it is now")
	update := flag.Bool("update", false, "write the session into the page")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, late := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the demo took more than %v", limit))
	defer late()

	tell := newTeller(os.Stdout)
	began := time.Now()
	if err := run(ctx, *bin, tell, &page{*name, *update}); err != nil {
		if ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		tell.failure("%v", err)
		tell.line("\n", tell.paint(red, "The demo failed."))
		os.Exit(1)
	}
	tell.line("\n", tell.paint(green, fmt.Sprintf("All %d steps did what they say, in %.1f s.", len(steps()), time.Since(began).Seconds())))
}

// A page is a file that shows the recorded session of the demo. An empty name means that there is no page.
type page struct {
	name   string
	update bool
}

func run(ctx context.Context, bin string, tell *teller, shown *page) (err error) {
	bin, err = filepath.Abs(bin)
	if err != nil {
		return err
	}
	if err := needs(ctx); err != nil {
		return err
	}
	s, err := newStage(bin, tell)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && s.daemon != nil {
			s.tell.note("the daemon's log ends with:")
			s.tell.ending(s.daemon.log.String(), 10)
		}
		err = errors.Join(err, s.clear())
	}()
	tell.command("cd " + s.dir)
	if err := s.open(ctx); err != nil {
		return err
	}
	for i, st := range steps() {
		tell.step(i+1, len(steps()), st.title)
		s.session.on = st.shown
		if err := st.play(s, ctx); err != nil {
			return err
		}
		s.session.on = false
		if err := s.daemon.running(); err != nil {
			return err
		}
	}
	if err := s.curtain(ctx); err != nil || shown.name == "" {
		return err
	}
	if err := s.session.compare(shown.name, shown.update); err != nil {
		return err
	}
	s.tell.proof("%s shows what these commands print", shown.name)
	return nil
}

// needs checks that the commands exist that the workspace's scripts use. Minimal machines may lack them; scripts/need.sh then installs them
// if it can.
func needs(ctx context.Context) error {
	wanted := map[string]string{"bash": "bash", "setsid": "util-linux", "tee": "coreutils"}
	var missing []string
	for name, pack := range wanted {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name+"="+pack)
		}
	}
	if missing == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, "scripts/need.sh", missing...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("missing: %v: %w", missing, err)
	}
	return nil
}
