package daemon

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker"
)

// trustedPools returns the sources of the trusted pools.
func trustedPools(w *config.Workers) []string {
	var sources []string
	for _, pool := range w.Trusted {
		namespace, name, _ := strings.Cut(pool, "/")
		sources = append(sources, worker.SourceOf(namespace, name))
	}
	return sources
}

// openWorkers creates the hub of workers and registers the tools that workers offered before.
func (d *daemon) openWorkers(ctx context.Context) error {
	known, err := wire.KnownWorkerTools(ctx, d.store)
	if err != nil {
		d.log.Error("tools of workers cannot be read; they are unknown until their workers reconnect", zap.Error(err))
	}
	key, err := wire.WorkerKey(ctx, d.store)
	if err != nil {
		d.log.Error("the lease key of workers cannot be read; calls of workers end with this daemon", zap.Error(err))
	}
	w, id := d.cfg.Workers, d.store.Identity()
	d.workers, err = worker.New(worker.Config{
		Registry: wire.WorkerTools(d.tools), Memory: wire.WorkerMemory(d.store), Known: known,
		Lease: w.Lease, Wait: w.Wait, Workers: w.Each, Log: d.log,
		StoreID: id.StoreID, Epoch: id.Epoch, Own: d.own(), Key: key,
	})
	if err != nil {
		return errors.Join(errors.New("workers"), err)
	}
	d.onClose(func() error { d.workers.Close(); return nil })
	return nil
}

// hidden reports whether a tool is hidden from a principal: a rule denies it, or it belongs to another tenant.
func (d *daemon) hidden(p tool.Principal, t *tool.Descriptor) bool {
	return d.workers.Hidden(p, t) || d.gate.Hidden(p, t)
}

// unlisted reports whether the lists of a principal omit a tool.
func (d *daemon) unlisted(p tool.Principal, t *tool.Descriptor) bool {
	return d.hidden(p, t) || d.workers.Absent(t)
}

// toolsOf counts the registered tools of a source. It does not count tools in quarantine.
func (d *daemon) toolsOf(source string) (n int) {
	for _, e := range d.tools.All() {
		if e.Source == source {
			n++
		}
	}
	return n
}

func (a adminOf) workerSources() []tool.SourceStatus {
	var out []tool.SourceStatus
	for _, p := range a.d.workers.Pools() {
		namespace, _ := worker.NamespaceOf(p.Source)
		o := tool.SourceStatus{Name: p.Source, Namespace: namespace, State: tool.SourceReady, Since: p.Since, Tools: a.d.toolsOf(p.Source), Server: strconv.Itoa(len(p.Workers)) + " workers"}
		switch {
		case len(p.Workers) == 0:
			o.State, o.Server, o.Error = tool.SourceDown, "", "no worker is connected"
		case len(p.Workers) == 1:
			o.Server = "1 worker: " + p.Workers[0]
		}
		for _, r := range p.Refused {
			o.Refused = append(o.Refused, tool.RefusedTool{Name: r.Tool, Reason: r.Message})
		}
		out = append(out, o)
	}
	return out
}
