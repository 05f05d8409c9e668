package cgroup

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// ofPool matches the names of groups of all owners. It captures the start time of the process that made the group.
var ofPool = regexp.MustCompile(`^toold-.+-\d+\.(\d+)-[A-Z2-7]{10}\.\d+$`)

// SweepStrangers removes empty groups of other owners, for example of a test, because these owners may never return. It returns the number
// of removed groups. It keeps groups younger than age, and groups whose maker still runs.
//
// Only the start time identifies the maker, because its PID may belong to another PID namespace. SweepStrangers lists the groups before it
// invokes listAlive, so listAlive sees every maker that still runs. listAlive reads all processes of the machine.
//
// Removing a group that a daemon still needs does no harm: the daemon creates another one.
func (p *Pool) SweepStrangers(age time.Duration, listAlive func() (func(start uint64) bool, error)) (removed int, err error) {
	found := map[string]uint64{}
	for _, dir := range p.location.parents {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // Nothing can be removed in this directory.
		}
		for _, e := range entries {
			m := ofPool.FindStringSubmatch(e.Name())
			if m == nil {
				continue
			}
			start, err := strconv.ParseUint(m[1], 10, 64)
			if info, statErr := e.Info(); err == nil && statErr == nil && time.Since(info.ModTime()) >= age {
				found[e.Name()] = start
			}
		}
	}
	if len(found) == 0 {
		return 0, nil
	}
	alive, err := listAlive()
	if err != nil {
		return 0, err
	}
	for name, start := range found {
		if g := (&Group{name: name, location: &p.location}); !alive(start) && g.deserted() && g.remove() {
			removed++
		}
	}
	return removed, nil
}

// deserted reports whether the group contains no process in any hierarchy.
func (g *Group) deserted() bool {
	for _, dir := range g.location.parents {
		if procs, err := os.ReadFile(filepath.Join(dir, g.name, "cgroup.procs")); len(procs) > 0 || err != nil && !os.IsNotExist(err) {
			return false
		}
	}
	return true
}
