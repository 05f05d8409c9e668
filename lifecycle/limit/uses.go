package limit

import (
	"slices"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// uses holds the resources of a call for many comparisons. The result of a comparison is that of [tool.Overlap]. The time of a comparison
// grows with the number of resources and not with its square. This matters because a full queue compares each call with thousands of
// others.
//
// Each resource is a key, and the keys are sorted. Resource A contains resource B if the key of A is a prefix of the key of B. If one key
// is a prefix of another, every key that is sorted between the two has this prefix too.
type uses struct{ changed, shared []string }

func usesOf(list []tool.Resource) (u uses) {
	for i := range list {
		r := &list[i]
		key := r.Kind + "/"
		if r.ID != "" {
			key += r.ID + "/"
		}
		if r.Shared {
			u.shared = append(u.shared, key)
		} else {
			u.changed = append(u.changed, key)
		}
	}
	slices.Sort(u.changed)
	slices.Sort(u.shared)
	return u
}

func (u *uses) exclusive() bool { return len(u.changed)+len(u.shared) == 0 }

func (u *uses) overlap(v *uses) bool {
	return u.exclusive() || v.exclusive() || meet(u.changed, v.changed) || meet(u.changed, v.shared) || meet(u.shared, v.changed)
}

// meet reports whether a key of a is a prefix of a key of b, or the other way round.
func meet(a, b []string) bool {
	for len(a) > 0 && len(b) > 0 {
		if a[0] > b[0] {
			a, b = b, a
		}
		if strings.HasPrefix(b[0], a[0]) {
			return true
		}
		a = a[1:] // No later key of b has this prefix either.
	}
	return false
}
