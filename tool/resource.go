package tool

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Resource is something that a call uses: a file, a calendar, an account. Two calls of a thread that are not concurrency-safe may run at
// the same time if both name their resources and none of these resources overlap.
//
// Two resources overlap when they have the same kind, at least one of them is not shared, and one id contains the other. Ids are compared
// byte by byte. An id contains itself and every id that continues it after a slash: "src" contains "src/main.go". The empty id contains
// every id of its kind. A tool must therefore use one spelling for each thing.
type Resource struct {
	// Kind has at most 32 letters, digits, "_", "-" and ".", and begins with a lower-case letter. Tools that use the same things use the same
	// kind; see [ResourceFile].
	Kind string `json:"kind"`
	// ID has at most [MaxResourceID] bytes of readable UTF-8.
	ID string `json:"id,omitempty"`
	// Shared says that the call does not change the resource, so calls that share it may run at the same time.
	Shared bool `json:"shared,omitempty"`
}

// ResourceFile is the kind of files and folders of the workspace. The id is the path relative to the workspace, with slashes and with all
// symbolic links followed. The empty id means the whole workspace.
const ResourceFile = "file"

// Limits of the resources that one call names. MaxResourceID is in bytes.
const (
	MaxResources  = 16
	MaxResourceID = 1024
)

var resourceKind = regexp.MustCompile(`^[a-z][a-zA-Z0-9_.-]{0,31}$`)

// CheckResources returns an error that describes the first invalid resource, or that there are too many.
func CheckResources(list []Resource) error {
	if len(list) > MaxResources {
		return fmt.Errorf("%d resources; at most %d are accepted", len(list), MaxResources)
	}
	for i := range list {
		r := &list[i]
		switch {
		case !resourceKind.MatchString(r.Kind):
			return fmt.Errorf("the kind %q of a resource; want 1 to 32 letters, digits and _-. that begin with a lower-case letter", r.Kind)
		case len(r.ID) > MaxResourceID:
			return fmt.Errorf("the id of a resource has %d bytes; at most %d are accepted", len(r.ID), MaxResourceID)
		case !utf8.ValidString(r.ID) || strings.ContainsFunc(r.ID, unicode.IsControl):
			return fmt.Errorf("the id %q of a resource is not readable text", r.ID)
		case strings.HasPrefix(r.ID, "/") || strings.HasSuffix(r.ID, "/") || strings.Contains(r.ID, "//"):
			return fmt.Errorf("the id %q of a resource has an empty part between slashes", r.ID)
		}
	}
	return nil
}

// Overlap reports whether calls with these resources must not run at the same time. A call without resources overlaps every call.
func Overlap(a, b []Resource) bool {
	if len(a) == 0 || len(b) == 0 {
		return true
	}
	for i := range a {
		for j := range b {
			if a[i].overlaps(&b[j]) {
				return true
			}
		}
	}
	return false
}

func (r *Resource) overlaps(other *Resource) bool {
	return r.Kind == other.Kind && !(r.Shared && other.Shared) && (contains(r.ID, other.ID) || contains(other.ID, r.ID))
}

func contains(id, part string) bool {
	return id == "" || strings.HasPrefix(part, id) && (len(part) == len(id) || part[len(id)] == '/')
}

// permits reports whether an assessment with the bound r may name the resource.
func (r *Resource) permits(named *Resource) bool {
	return r.Kind == named.Kind && (r.Shared || !named.Shared) && contains(r.ID, named.ID)
}

// beyond reports whether an assessment names a resource that bound does not permit. An assessment without resources is never beyond a
// bound.
func beyond(answer, bound []Resource) bool {
	return slices.ContainsFunc(answer, func(named Resource) bool {
		return !slices.ContainsFunc(bound, func(r Resource) bool { return r.permits(&named) })
	})
}
