// Package deploy checks the manifests in deploy/ against the types of Kubernetes and the schema of Compose. It is a separate module,
// because its dependencies are large.
package deploy

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	compose "github.com/compose-spec/compose-go/v2/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const kubernetes = "../../deploy/kubernetes"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// objects are the objects of a rendered overlay.
type objects struct {
	namespace *corev1.Namespace
	set       *appsv1.StatefulSet
	service   *corev1.Service
	policy    *networkingv1.NetworkPolicy
	budget    *policyv1.PodDisruptionBudget
}

func (o *objects) pod() *corev1.PodSpec { return &o.set.Spec.Template.Spec }

// render renders a directory as "kubectl apply -k" does, and decodes each object strictly: an unknown or repeated field is an error, although
// a cluster may ignore it.
func render(directory string) (*objects, error) {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), directory)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var all objects
	for _, resource := range rendered.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			return nil, err
		}
		object, _, err := strict.Decode(text, nil, nil)
		if err != nil {
			return nil, err
		}
		switch o := object.(type) {
		case *corev1.Namespace:
			all.namespace = o
		case *appsv1.StatefulSet:
			all.set = o
		case *corev1.Service:
			all.service = o
		case *networkingv1.NetworkPolicy:
			all.policy = o
		case *policyv1.PodDisruptionBudget:
			all.budget = o
		}
	}
	return &all, nil
}

func overlay(t *testing.T, name string) *objects {
	t.Helper()
	o, err := render(filepath.Join(kubernetes, "overlays", name))
	must(t, err)
	if o.namespace == nil || o.set == nil || o.service == nil || o.policy == nil || o.budget == nil {
		t.Fatalf("the overlay %s lacks an object: %+v", name, o)
	}
	return o
}

// The objects of each overlay fit together: selectors match the pod, and every name refers to an object that exists.
func TestOverlaysFitTogether(t *testing.T) {
	for _, name := range []string{"user-namespaces", "landlock"} {
		o := overlay(t, name)
		pod := labels.Set(o.set.Spec.Template.Labels)
		for what, selector := range map[string]*metav1.LabelSelector{
			"stateful set": o.set.Spec.Selector, "disruption budget": o.budget.Spec.Selector, "network policy": &o.policy.Spec.PodSelector,
			"service": {MatchLabels: o.service.Spec.Selector},
		} {
			s, err := metav1.LabelSelectorAsSelector(selector)
			must(t, err)
			if s.Empty() || !s.Matches(pod) {
				t.Errorf("%s: the %s selects %q, and the pod has the labels %q", name, what, s, pod)
			}
		}
		if o.set.Spec.ServiceName != o.service.Name || len(o.pod().Containers) != 1 {
			t.Errorf("%s: service name %q, %d containers", name, o.set.Spec.ServiceName, len(o.pod().Containers))
		}
		checkPorts(t, o)
		checkVolumes(t, o)
	}
}

// checkPorts checks that service, policy and probes name ports of the container.
func checkPorts(t *testing.T, o *objects) {
	t.Helper()
	c := &o.pod().Containers[0]
	var named []intstr.IntOrString
	for _, p := range o.service.Spec.Ports {
		named = append(named, p.TargetPort)
	}
	for _, rule := range o.policy.Spec.Ingress {
		for _, p := range rule.Ports {
			named = append(named, *p.Port)
		}
	}
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		named = append(named, probe.HTTPGet.Port)
	}
	for _, port := range named {
		if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.StrVal }) {
			t.Errorf("the container has no port %q", port.String())
		}
	}
}

// checkVolumes checks that every mount has a volume, and that no secret is part of the manifests.
func checkVolumes(t *testing.T, o *objects) {
	t.Helper()
	var have []string
	for _, v := range o.pod().Volumes {
		have = append(have, v.Name)
	}
	for _, v := range o.set.Spec.VolumeClaimTemplates {
		have = append(have, v.Name)
	}
	var mounted []string
	for _, m := range o.pod().Containers[0].VolumeMounts {
		mounted = append(mounted, m.Name)
	}
	slices.Sort(have)
	slices.Sort(mounted)
	if !slices.Equal(have, mounted) {
		t.Errorf("volumes %q, mounts %q", have, mounted)
	}
}

// forbidden returns what the cluster's own check of pod security forbids at a level.
func forbidden(t *testing.T, o *objects, level api.Level) (reasons []string) {
	t.Helper()
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	must(t, err)
	template := &o.set.Spec.Template
	for _, result := range checks.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &template.ObjectMeta, &template.Spec) {
		if !result.Allowed {
			reasons = append(reasons, result.ForbiddenReason)
		}
	}
	slices.Sort(reasons)
	return reasons
}

// A cluster admits the pod of each overlay at the pod security level of its namespace. The overlay landlock meets the level "restricted".
// The overlay user-namespaces breaks this level only with the settings that isolation of calls needs.
func TestPodSecurity(t *testing.T) {
	for name, want := range map[string][]string{"landlock": nil, "user-namespaces": {"forbidden AppArmor profile", "procMount", "seccompProfile"}} {
		o := overlay(t, name)
		if got := forbidden(t, o, api.LevelRestricted); !slices.Equal(got, want) {
			t.Errorf("%s: restricted forbids %q, want %q", name, got, want)
		}
		level := api.Level(o.namespace.Labels[api.EnforceLevelLabel])
		if got := forbidden(t, o, level); got != nil || !level.Valid() {
			t.Errorf("%s: the level %q forbids %q", name, level, got)
		}
		c := o.pod().Containers[0].SecurityContext
		if p := o.pod(); !*c.ReadOnlyRootFilesystem || *p.AutomountServiceAccountToken || *p.EnableServiceLinks || (name == "user-namespaces") != (p.HostUsers != nil && !*p.HostUsers) {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// A misspelt or repeated field is an error.
func TestRenderIsStrict(t *testing.T) {
	file := filepath.Join("base", "statefulset.yaml")
	for _, tt := range []struct{ old, changed, want string }{
		{"terminationGracePeriodSeconds:", "terminationGracePeriod:", `unknown field "spec.template.spec.terminationGracePeriod"`},
		{"readOnlyRootFilesystem:", "readonlyRootFilesystem:", `unknown field "spec.template.spec.containers[0].securityContext.readonlyRootFilesystem"`},
		{"replicas: 1", "replicas: one", "cannot unmarshal string"},
	} {
		at := t.TempDir()
		must(t, os.CopyFS(at, os.DirFS(kubernetes)))
		text, err := os.ReadFile(filepath.Join(at, file))
		must(t, err)
		if !bytes.Contains(text, []byte(tt.old)) {
			t.Fatalf("%s has no %q", file, tt.old)
		}
		must(t, os.WriteFile(filepath.Join(at, file), bytes.Replace(text, []byte(tt.old), []byte(tt.changed), 1), 0o600))
		if _, err := render(filepath.Join(at, "overlays", "landlock")); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.changed, err, tt.want)
		}
	}
}

// loadCompose loads a Compose file against the schema of Compose.
func loadCompose(t *testing.T, text []byte) (*compose.Project, error) {
	return loader.LoadWithContext(t.Context(), compose.ConfigDetails{
		ConfigFiles: []compose.ConfigFile{{Filename: "compose.yaml", Content: text}}, Environment: compose.Mapping{"TOOLD_VERSION": "0.1.0"},
	}, func(o *loader.Options) { o.SetProjectName("toold", true) })
}

func TestCompose(t *testing.T) {
	text, err := os.ReadFile("../../deploy/compose.yaml")
	must(t, err)
	project, err := loadCompose(t, text)
	must(t, err)
	s := project.Services["toold"]
	if s.Image != "toold:0.1.0" || s.Build != nil || !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") ||
		s.NetworkMode != "host" || s.Ports != nil || len(s.Volumes) != 2 || s.HealthCheck == nil {
		t.Errorf("%+v", s)
	}
	for _, v := range s.Volumes {
		if _, ok := project.Volumes[v.Source]; !ok {
			t.Errorf("there is no volume %s", v.Source)
		}
	}
	if _, err := loadCompose(t, bytes.Replace(text, []byte("read_only:"), []byte("readonly:"), 1)); err == nil || !strings.Contains(err.Error(), "readonly") {
		t.Errorf("a misspelt field: %v", err)
	}
}
