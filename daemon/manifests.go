package daemon

import (
	"reflect"
	"slices"
	"sync"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/command"
)

// withProfiles returns the profiles in force together with the new profiles of a later configuration. An existing profile does not change
// until a restart, because tools and the records of their calls refer to it. restart reports whether an existing profile was changed or
// removed.
func withProfiles(c *config.Config, later []config.Profile) (all []config.Profile, restart bool) {
	named := func(list []config.Profile, name string) int {
		return slices.IndexFunc(list, func(p config.Profile) bool { return p.Name == name })
	}
	all = slices.Clone(c.Sandbox.Profiles)
	for _, p := range c.Sandbox.Profiles {
		i := named(later, p.Name)
		restart = restart || i < 0 || !reflect.DeepEqual(p, later[i])
	}
	for _, p := range later {
		if named(all, p.Name) < 0 {
			all = append(all, p)
		}
	}
	return all, restart
}

// profilesInForce returns the profiles of the configuration and those that reloads added.
func (d *daemon) profilesInForce() []config.Profile {
	d.profiles.mu.Lock()
	defer d.profiles.mu.Unlock()
	return d.cfg.Sandbox.Profiles
}

// addProfiles applies a list of profiles and reports whether some are new.
func (d reloader) addProfiles(all []config.Profile) bool {
	d.profiles.mu.Lock()
	defer d.profiles.mu.Unlock()
	added := len(all) > len(d.cfg.Sandbox.Profiles)
	d.cfg.Sandbox.Profiles = all
	return added
}

// profileProofs holds the proofs of the profiles that manifests use. It does not contain the proof of the profile of bash.
type profileProofs struct {
	mu     sync.Mutex
	proofs map[string]*proof
}

// openManifests registers the tools of manifests.
func (d *daemon) openManifests() error {
	set, err := readManifests(d.cfg, d.runner, d.references, d.log, nil)
	if err != nil {
		return err
	}
	if err := d.tools.Replace(command.Source, set.Tools()...); err != nil {
		return config.Errorf("%w", err)
	}
	d.manifests = set
	d.onClose(func() error { d.manifests.Close(); return nil })
	d.proveProfiles(set)
	return nil
}

// reloadManifests applies a set of manifests and reports whether the set changed.
func (d reloader) reloadManifests(next *command.Set) (swapped bool, err error) {
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

// proveProfiles starts to test the isolation of the profiles that the set uses.
func (d *daemon) proveProfiles(set *command.Set) {
	for _, t := range set.Tools() {
		descriptor := t.Descriptor()
		d.proofOf(descriptor.Metadata[profileMark])
	}
}

// proofOf returns the proof of a profile in the shared workspace. It returns nil when the profile isolates nothing or does not exist.
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
	policy, err := d.cfg.Policies(config.Sharing)(profile)
	if err != nil || policy == nil {
		return nil
	}
	d.profiles.proofs[profile] = d.startProof(policy)
	return d.profiles.proofs[profile]
}

// manifestProof returns the proof for the call records of a manifest's tool.
func (d *daemon) manifestProof(t *tool.Descriptor) *proof {
	if t.Metadata[profileMark] == config.ProfileNone {
		return nil
	}
	return d.proofOf(t.Metadata[profileMark])
}
