package command

import (
	"fmt"
	"slices"

	"github.com/toold-dev/toold/tool"
)

// resource is the YAML form of [tool.Resource]. In an entry of assess, the id is a template.
type resource struct {
	Kind   string `yaml:"kind"`
	ID     string `yaml:"id"`
	Shared bool   `yaml:"shared"`
}

// resources returns the resources of a call. When an argument of an id is missing, or when the resources are not valid, it returns none,
// and the call is exclusive.
func (e *effects) resources(values, defaults map[string]any) (list []tool.Resource) {
	f := &filling{values: values, defaults: defaults}
	for _, r := range e.Resources {
		t, _ := parseTemplate(r.ID, "") // The error is always nil, because the template was checked when the manifest was read.
		ids := f.texts(&t)
		if len(ids) == 0 {
			return nil
		}
		for _, id := range ids {
			list = append(list, tool.Resource{Kind: r.Kind, ID: id, Shared: r.Shared})
		}
	}
	if len(f.violations) > 0 || tool.CheckResources(list) != nil {
		return nil
	}
	return list
}

// checkResources checks the resources at a path. known has the parameters that ids may contain; it is nil where ids are fixed text.
func (m *Manifest) checkResources(r *reader, path string, e *effects, known map[string]parameter) {
	for i, one := range e.Resources {
		at := fmt.Sprintf("%s.resources[%d]", path, i)
		if one.Kind == tool.ResourceFile {
			r.wrong(at+".kind", "%q is for the file tools, because toold follows no links in the arguments of a command; use another kind", one.Kind)
			continue
		}
		t := r.template(one.ID, at+".id")
		if known != nil {
			m.checkTemplate(r, &t, known, map[string]bool{}, true)
		} else if len(t.placeholders()) > 0 {
			r.wrong(at+".id", "a placeholder is possible only in an entry of assess, because the arguments are unknown here")
		}
		fixed := tool.Resource{Kind: one.Kind}
		if len(t.placeholders()) == 0 {
			fixed.ID = t.prefix()
		}
		if err := tool.CheckResources([]tool.Resource{fixed}); err != nil {
			r.wrong(at, "%v", err)
		}
		if known != nil && m.Mildest != nil && !slices.ContainsFunc(m.Mildest.Resources, func(p resource) bool { return p.Kind == one.Kind && (p.Shared || !one.Shared) }) {
			r.wrong(at, "mildest does not permit it; add {kind: %s, shared: %t} to mildest.resources", one.Kind, one.Shared)
		}
	}
	if len(e.Resources) > tool.MaxResources {
		r.wrong(path+".resources", "has %d entries; at most %d are accepted", len(e.Resources), tool.MaxResources)
	}
}
