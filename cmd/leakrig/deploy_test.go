package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"

	"github.com/leakrig/leakrig/checks"
	"github.com/leakrig/leakrig/leak"
	"github.com/leakrig/leakrig/session"
)

// manifests are the objects of deploy/cronjob.yaml. Every field is one that Kubernetes knows.
type manifests struct {
	namespace corev1.Namespace
	account   corev1.ServiceAccount
	role      rbacv1.ClusterRole
	binding   rbacv1.ClusterRoleBinding
	scenarios corev1.ConfigMap
	claim     corev1.PersistentVolumeClaim
	cron      batchv1.CronJob
}

func readManifests(t *testing.T) manifests {
	t.Helper()
	data, err := os.ReadFile("../../deploy/cronjob.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var m manifests
	into := map[string]any{
		"Namespace": &m.namespace, "ServiceAccount": &m.account, "ClusterRole": &m.role, "ClusterRoleBinding": &m.binding,
		"ConfigMap": &m.scenarios, "PersistentVolumeClaim": &m.claim, "CronJob": &m.cron,
	}
	versions := map[string]string{"ClusterRole": "rbac.authorization.k8s.io/v1", "ClusterRoleBinding": "rbac.authorization.k8s.io/v1", "CronJob": "batch/v1"}
	for docs := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var head struct{ APIVersion, Kind string }
		if err := strict.Unmarshal(doc, &head); err != nil {
			t.Fatal(err)
		}
		object, ok := into[head.Kind]
		if version := versions[head.Kind]; !ok || head.APIVersion != version && (version != "" || head.APIVersion != "v1") {
			t.Fatalf("%s %s: not expected, or twice", head.APIVersion, head.Kind)
		}
		if err := strict.UnmarshalStrict(doc, object); err != nil {
			t.Errorf("%s: %v", head.Kind, err)
		}
		delete(into, head.Kind)
	}
	if len(into) > 0 {
		t.Fatalf("not there: %v", into)
	}
	return m
}

func TestCronJob(t *testing.T) {
	m := readManifests(t)
	pod := m.cron.Spec.JobTemplate.Spec.Template.Spec
	rig := pod.Containers[0]

	// The parts name each other rightly.
	for _, name := range []string{m.account.Namespace, m.scenarios.Namespace, m.claim.Namespace, m.cron.Namespace, m.binding.Subjects[0].Namespace} {
		if name != m.namespace.Name {
			t.Errorf("namespace %q", name)
		}
	}
	if m.binding.RoleRef.Name != m.role.Name || m.binding.Subjects[0].Name != m.account.Name || pod.ServiceAccountName != m.account.Name {
		t.Error("the pod's service account is not the one that has the role")
	}
	mounts := map[string]string{}
	for _, v := range rig.VolumeMounts {
		mounts[v.Name] = v.MountPath
	}
	for _, v := range pod.Volumes {
		if mounts[v.Name] == "" || v.ConfigMap != nil && v.ConfigMap.Name != m.scenarios.Name || v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName != m.claim.Name {
			t.Errorf("volume %s", v.Name)
		}
	}

	// Requirements of a namespace with the restricted pod security standard.
	if s := rig.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("%+v", s)
	}
	if s := pod.SecurityContext; !*s.RunAsNonRoot || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%+v", s)
	}

	// The permissions are those that the run needs, without secrets, nodes or wildcards.
	for _, r := range m.role.Rules {
		if slices.Contains(slices.Concat(r.APIGroups, r.Resources, r.Verbs, r.NonResourceURLs), "*") {
			t.Errorf("a rule with *: %+v", r)
		}
		for _, resource := range r.Resources {
			if !slices.Contains([]string{"namespaces", "configmaps"}, resource) {
				t.Errorf("rights over %s", resource)
			}
		}
	}
}

// The command line of the manifest is one that leakrig takes, with the scenarios of the manifest.
func TestCronJobCommand(t *testing.T) {
	m := readManifests(t)
	dir := t.TempDir()
	for name, text := range m.scenarios.Data {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, s, err := session.Open(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := checks.Feasible(s, len(s.Spec.Variants)); err != nil {
			t.Error(err)
		}
		if !slices.Equal(s.Spec.Cluster.Providers, []string{"existing"}) || s.Spec.Subject.Build != "" {
			t.Errorf("%s: it does not run there: the image has no Go", name)
		}
		for _, c := range s.Spec.Subject.Components {
			if c.Component != leak.KubeAPIServer {
				t.Errorf("%s observes %s, for which the role has no rights", name, c.Component)
			}
		}
	}
	args := m.cron.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args
	takes(t, slices.Clone(args))
	if names, err := session.NightNames([]string{dir}); err != nil || len(names) != len(m.scenarios.Data) {
		t.Errorf("--all runs %q (%v)", names, err)
	}
	mounts := map[string]bool{}
	for _, v := range m.cron.Spec.JobTemplate.Spec.Template.Spec.Containers[0].VolumeMounts {
		mounts[v.MountPath] = true
	}
	for _, a := range args {
		if strings.HasPrefix(a, "/") && !mounts[a] {
			t.Errorf("nothing is mounted at %s", a)
		}
	}
}

// workflow is what the tests look at in a workflow of GitHub Actions.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		TimeoutMin  int `json:"timeout-minutes"`
		Steps       []struct{ Uses, Run string }
	}
}

// Workflows may read the repository and nothing else, their actions are pinned, they end, and each line with
// leakrig or make is one that those take. internal/lint.sh has actionlint look at the rest.
func TestWorkflows(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%q %v", files, err)
	}
	commands := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workflow
		if err := strict.Unmarshal(data, &w); err != nil {
			t.Fatal(err)
		}
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s: permissions %v", file, w.Permissions)
		}
		for name, job := range w.Jobs {
			if job.Permissions != nil || job.TimeoutMin == 0 {
				t.Errorf("%s: job %s: permissions %v, timeout %d", file, name, job.Permissions, job.TimeoutMin)
			}
			for _, step := range job.Steps {
				if step.Uses != "" && !regexp.MustCompile(`^[\w-]+/[\w-]+@(v\d+|[0-9a-f]{40})$`).MatchString(step.Uses) {
					t.Errorf("%s: %s is not pinned", file, step.Uses)
				}
				for line := range strings.Lines(step.Run) {
					words := strings.Fields(line)
					switch {
					case len(words) > 0 && words[0] == "bin/leakrig":
						commands++
						takes(t, words[1:])
					case slices.Contains(words, "make"):
						commands++
						target := words[slices.Index(words, "make")+1]
						if !bytes.Contains(makefile, []byte("\n"+target+":")) {
							t.Errorf("%s: no make target %s", file, target)
						}
					}
				}
			}
		}
	}
	if commands < 5 {
		t.Errorf("only %d commands were found", commands)
	}
}

// takes checks that leakrig accepts a command line, with 1 for what a shell would fill in.
func takes(t *testing.T, words []string) {
	t.Helper()
	for i, w := range words {
		switch {
		case strings.Contains(w, "$CLUSTER"):
			words[i] = "auto"
		case strings.Contains(w, "$"):
			words[i] = "1"
		}
	}
	c, args, err := (&app{}).command().Find(words)
	if err == nil {
		err = c.ParseFlags(args)
	}
	if err == nil {
		err = c.ValidateArgs(c.Flags().Args())
	}
	if err != nil {
		t.Errorf("leakrig %s: %v", strings.Join(words, " "), err)
	}
}
