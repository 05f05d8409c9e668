package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// secretScheme is the prefix of a reference to a secret. Only a manifest can contain references. In an argument, such a text is plain text.
const secretScheme = "secret://"

// Prefixes of the parameter for [Secrets.Resolve]. The name of the variable follows the prefix.
const (
	inVariable   = "env."
	byDescriptor = "descriptor."
)

// handed decodes an entry of run.secrets.
func (r *reader) handed(n *yaml.Node, to *handed, path string, depth int) {
	if n.Kind == yaml.ScalarNode {
		to.reference = n.Value
		return
	}
	var declared struct {
		Descriptor string `yaml:"descriptor"`
	}
	r.fields(n, &declared, path, depth)
	to.reference, to.descriptor = declared.Descriptor, true
}

func (m *Manifest) checkSecrets(r *reader) {
	descriptors := 0
	for _, name := range slices.Sorted(maps.Keys(m.Run.Secrets)) {
		h := m.Run.Secrets[name]
		if s, ok := strings.CutPrefix(h.reference, secretScheme); !ok || s == "" || strings.ContainsAny(s, "{}\x00 ") {
			r.wrong("run.secrets."+name, "want a reference such as %sgithub, or {descriptor: %[1]sgithub}", secretScheme)
		}
		if h.descriptor {
			descriptors++
		}
	}
	if descriptors > sandbox.MostHanded {
		r.wrong("run.secrets", "%d descriptors exceed the limit of %d for a program", descriptors, sandbox.MostHanded)
	}
}

type secrets struct {
	env    []string // NAME=value for each secret in a variable; NAME=number for each secret that is read from the file descriptor with this number
	handed []string // values for the file descriptors that begin at sandbox.FirstHanded
}

func (s *secrets) equal(other *secrets) bool {
	return slices.Equal(s.env, other.env) && slices.Equal(s.handed, other.handed)
}

// secrets resolves the references of the manifest. No other function resolves secrets.
func (t *scripted) secrets(ctx context.Context, c *tool.Call) (*secrets, error) {
	out := &secrets{}
	for _, name := range slices.Sorted(maps.Keys(t.m.Run.Secrets)) {
		h := t.m.Run.Secrets[name]
		reference, parameter := strings.TrimPrefix(h.reference, secretScheme), inVariable+name
		if h.descriptor {
			parameter = byDescriptor + name
		}
		value, err := t.cfg.Secrets.Resolve(ctx, c.Namespace, t.m.ID, parameter, reference)
		if err == nil && strings.ContainsRune(value, 0) {
			err = errors.New("its value contains a NUL")
		}
		if _, own := errors.AsType[*tool.Error](err); err != nil && !own {
			err = &tool.Error{
				Code: tool.ExecutionFailed, Reason: "SECRET_UNAVAILABLE", Aborted: true, DeveloperMessage: err.Error(),
				Message: fmt.Sprintf("Not run: the secret %s is not available.", reference),
			}
		}
		if err != nil {
			return nil, err
		}
		if h.descriptor {
			out.handed, value = append(out.handed, value), strconv.Itoa(sandbox.FirstHanded+len(out.handed))
		}
		out.env = append(out.env, name+"="+value)
	}
	return out, nil
}
