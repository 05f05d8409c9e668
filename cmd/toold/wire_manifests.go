package main

import (
	"path/filepath"
	"sync"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/command"
)

// profileProofs are what canaries have shown of profiles, beside that of commands.
type profileProofs struct {
	mu     sync.Mutex
	proofs map[string]*proof
}

// openManifests registers the tools of manifests.
func (d *daemon) openManifests() error {
	set, err := d.cfg.readManifests(d.runner, d.references, d.log, nil)
	if err != nil {
		return err
	}
	if err := d.tools.Replace(command.Source, set.Tools()...); err != nil {
		return usageError{err}
	}
	d.manifests = set
	d.onClose(func() error { d.manifests.Close(); return nil })
	d.proveProfiles(set)
	return nil
}

// reloadManifests puts a set in force, and reports whether it is another one.
func (d *daemon) reloadManifests(next *command.Set) (swapped bool, err error) {
	if next.Same(d.manifests) {
		return false, nil
	}
	if err := d.tools.Replace(command.Source, next.Tools()...); err != nil {
		return false, err
	}
	d.proveProfiles(next)
	d.manifests.Retire(next)
	d.manifests = next
	return true, nil
}

// proveProfiles begins to find out what holds around the programs of a set.
func (d *daemon) proveProfiles(set *command.Set) {
	for _, t := range set.Tools() {
		descriptor := t.Descriptor()
		d.proofOf(descriptor.Metadata[profileMark])
	}
}

// proofOf is what holds around the programs of a profile in the workspace; nil when nothing isolates them.
func (d *daemon) proofOf(profile string) *proof {
	if profile == d.cfg.Bash.Profile {
		return d.proof.Load()
	}
	d.profiles.mu.Lock()
	defer d.profiles.mu.Unlock()
	if p, ok := d.profiles.proofs[profile]; ok {
		return p
	}
	if d.profiles.proofs == nil {
		d.profiles.proofs = map[string]*proof{}
	}
	path, err := filepath.Abs(d.cfg.Workspace)
	if err != nil {
		return nil
	}
	policy, err := d.cfg.policy(profile, path)
	if err != nil || policy == nil {
		return nil
	}
	d.profiles.proofs[profile] = d.startProof(policy)
	return d.profiles.proofs[profile]
}

// manifestProof is for the records of a manifest's tool.
func (d *daemon) manifestProof(t *tool.Descriptor) *proof {
	if t.Metadata[profileMark] == profileNone {
		return nil
	}
	return d.proofOf(t.Metadata[profileMark])
}
