package cgroup

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// ofPool is the name of a group of any owner, with the start time of the process that made it.
var ofPool = regexp.MustCompile(`^toold-.+-\d+\.(\d+)-[A-Z2-7]{10}\.\d+$`)

// SweepStrangers removes empty groups of owners that may never come back, such as those of a test, and returns how many there
// were. It leaves those that are younger than age, and those whose maker lives. The start time alone decides that, as its
// number may be of another namespace of processes: lives gets all processes of the machine, after the groups were listed.
//
// A daemon that loses an empty group anyway makes another one.
func (p *Pool) SweepStrangers(age time.Duration, lives func() (func(start uint64) bool, error)) (removed int, err error) {
	found := map[string]uint64{}
	for _, dir := range p.place.parents {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // nothing can be removed there
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
	living, err := lives()
	if err != nil {
		return 0, err
	}
	for name, start := range found {
		if g := (&Group{name: name, place: &p.place}); !living(start) && g.deserted() && g.remove() {
			removed++
		}
	}
	return removed, nil
}

// deserted reports whether there is no process in the group, in any hierarchy.
func (g *Group) deserted() bool {
	for _, dir := range g.place.parents {
		if procs, err := os.ReadFile(filepath.Join(dir, g.name, "cgroup.procs")); len(procs) > 0 || err != nil && !os.IsNotExist(err) {
			return false
		}
	}
	return true
}
