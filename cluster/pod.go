package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/leakrig/leakrig/leak"
)

const (
	// subjectName is that of the Deployment, the service account and its role.
	subjectName = "subject"
	podPort     = 8080
	// watchInterval is how often the pod's restarts are looked at.
	watchInterval = 500 * time.Millisecond
	podStopGrace  = int64(5)
)

// RunPod runs the program as a Deployment of one pod in the run's namespace, with the rights and limits
// that the scenario asks for and no others. Its operations and pprof are reached by a port-forward
// through the API server.
func (c *kindCluster) RunPod(ctx context.Context, l leak.Launch) (leak.Subject, error) {
	image, err := c.loadImage(ctx, l.Program)
	if err != nil {
		return nil, err
	}
	p := &pod{connection: c.connection, launch: l, port: podPort, done: make(chan struct{})}
	if l.Port != 0 {
		p.port = int32(l.Port)
	}
	err = p.create(ctx, image)
	if err == nil {
		err = p.waitReady(ctx)
	}
	if err == nil {
		err = p.reach(ctx, c)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return nil, errors.Join(err, p.Stop(ctx))
	}
	return p, nil
}

// pod is a subject that runs in a cluster.
type pod struct {
	*connection
	launch leak.Launch
	port   int32
	name   string // the pod's
	node   string
	target leak.Target

	stop  context.CancelFunc // ends port-forward, log and watch
	tasks sync.WaitGroup
	once  sync.Once
	done  chan struct{}
	err   error // set before done is closed
}

func (p *pod) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: subjectName, Namespace: p.namespace, Labels: p.podLabels()}
}

func (p *pod) podLabels() map[string]string {
	labels := p.labels()
	labels["app.kubernetes.io/name"] = subjectName
	return labels
}

func (p *pod) create(ctx context.Context, image string) error {
	deployment, err := p.deployment(image)
	if err != nil {
		return err
	}
	_, err1 := p.client.CoreV1().ServiceAccounts(p.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: p.meta()}, metav1.CreateOptions{})
	_, err2 := p.client.RbacV1().Roles(p.namespace).Create(ctx, p.role(), metav1.CreateOptions{})
	_, err3 := p.client.RbacV1().RoleBindings(p.namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: p.meta(),
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: subjectName, Namespace: p.namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: subjectName},
	}, metav1.CreateOptions{})
	_, err4 := p.client.AppsV1().Deployments(p.namespace).Create(ctx, deployment, metav1.CreateOptions{})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return fmt.Errorf("create the subject's objects: %w", err)
	}
	return nil
}

func (p *pod) role() *rbacv1.Role {
	role := &rbacv1.Role{ObjectMeta: p.meta()}
	for _, r := range p.launch.Rules {
		groups := r.APIGroups
		if len(groups) == 0 {
			groups = []string{""}
		}
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: groups, Resources: r.Resources, Verbs: r.Verbs})
	}
	return role
}

func (p *pod) deployment(image string) (*appsv1.Deployment, error) {
	limits, err := resourceList(p.launch.Limits)
	if err != nil {
		return nil, err
	}
	one, grace, yes, no := int32(1), podStopGrace, true, false
	user := int64(65532)
	container := corev1.Container{
		Name: subjectName, Image: image, ImagePullPolicy: corev1.PullNever,
		Args: p.launch.Args, Env: p.env(),
		Ports:     []corev1.ContainerPort{{ContainerPort: p.port}},
		Resources: corev1.ResourceRequirements{Limits: limits},
		// Only a startup probe: one that went on would be load of its own during the rounds.
		StartupProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: p.launch.Ready, Port: intstr.FromInt32(p.port)}},
			PeriodSeconds: 1, FailureThreshold: int32(p.launch.ReadyTimeout/time.Second) + 1,
		},
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &user, ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	return &appsv1.Deployment{
		ObjectMeta: p.meta(),
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector: &metav1.LabelSelector{MatchLabels: p.podLabels()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: p.podLabels()},
				Spec: corev1.PodSpec{
					ServiceAccountName: subjectName, TerminationGracePeriodSeconds: &grace, EnableServiceLinks: &no,
					Containers: []corev1.Container{container},
				},
			},
		},
	}, nil
}

func resourceList(limits map[string]string) (corev1.ResourceList, error) {
	list := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	for name, text := range limits {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("subject.limits.%s: %w", name, err)
		}
		list[corev1.ResourceName(name)] = q
	}
	return list, nil
}

func (p *pod) env() []corev1.EnvVar {
	port := strconv.Itoa(int(p.port))
	env := []corev1.EnvVar{
		{Name: "PORT", Value: port}, {Name: "LEAKRIG_LISTEN", Value: "0.0.0.0:" + port},
		{Name: "GODEBUG", Value: leak.WithProfileRate(p.launch.Env["GODEBUG"])},
	}
	for name, value := range p.launch.Env {
		if name != "GODEBUG" {
			env = append(env, corev1.EnvVar{Name: name, Value: value})
		}
	}
	slices.SortFunc(env, func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	return env
}

// current finds the pod of this subject. It is an error when there is none.
func (p *pod) current(ctx context.Context) (*corev1.Pod, error) {
	list, err := p.client.CoreV1().Pods(p.namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: p.podLabels()})})
	if err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, errors.New("there is no pod yet")
	}
	return &list.Items[0], nil
}

// waitReady waits for the startup probe to succeed.
func (p *pod) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.launch.ReadyTimeout)
	defer cancel()
	last := "no pod was made"
	for {
		found, err := p.current(ctx)
		if err == nil {
			last = podState(found)
			if ended := ending(found); ended != "" {
				p.saveLog(ctx)
				return p.died(ended)
			}
			if ready(found) {
				p.name, p.node = found.Name, found.Spec.NodeName
				return nil
			}
		}
		select {
		case <-ctx.Done():
			if ctx.Err() == context.Canceled {
				return context.Cause(ctx)
			}
			p.saveLog(context.WithoutCancel(ctx))
			return leak.WithHint(fmt.Errorf("subject %s did not become ready in %s: GET %s: %s", p.launch.Variant, p.launch.ReadyTimeout, p.launch.Ready, last),
				"see %s; subject.ready and subject.readyTimeout change what is waited for", p.launch.Log)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// ending tells how the container ended, "" while it runs for the first time.
func ending(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		for _, t := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			if t != nil {
				return fmt.Sprintf("%s, exit code %d", t.Reason, t.ExitCode)
			}
		}
		if s.RestartCount > 0 {
			return "it was restarted"
		}
	}
	if pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil {
		return strings.TrimSpace("the pod is gone: " + pod.Status.Reason + " " + pod.Status.Message)
	}
	return ""
}

func podState(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil {
			return strings.TrimSpace(w.Reason + " " + w.Message)
		}
	}
	return "the pod is " + string(pod.Status.Phase)
}

func (p *pod) died(how string) error {
	hint := "see " + p.launch.Log
	if strings.Contains(how, "OOMKilled") {
		hint = "it was killed for its memory: subject.limits in the scenario raises the limit; " + hint
	}
	return leak.WithHint(fmt.Errorf("subject %s died: %s%s", p.launch.Variant, how, leak.LastWords(p.launch.Log)), "%s", hint)
}

// reach opens the port-forward and starts to follow log and restarts.
func (p *pod) reach(ctx context.Context, c *kindCluster) error {
	tasks, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	address, err := p.forward(tasks)
	if err != nil {
		return err
	}
	base := "http://" + address
	p.target = leak.Target{
		URL: base, Pprof: base + strings.TrimSuffix(p.launch.Pprof, "/"),
		// A connection that this side closes stands in the pod for another second, as containerd's
		// port-forward is; so every request asks the subject to close it.
		Transport: func() *http.Transport { return &http.Transport{DisableKeepAlives: true} },
	}
	if p.target.Proc, err = c.proc(ctx, p.node, p.namespace, p.name); err != nil {
		// The engine does not let us look: the kubelet knows resident memory, if nothing else.
		p.target.Proc, p.target.Resident = nil, p.resident
	}
	p.tasks.Go(func() { p.followLog(tasks) })
	p.tasks.Go(func() { p.watchRestarts(tasks) })
	return nil
}

func (p *pod) followLog(ctx context.Context) {
	stream, err := p.client.CoreV1().Pods(p.namespace).GetLogs(p.name, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		return // the log is for people; what matters is watched elsewhere
	}
	defer stream.Close()
	if f, err := os.OpenFile(p.launch.Log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err == nil {
		defer f.Close()
		_, _ = io.Copy(f, stream)
	}
}

// saveLog keeps what a pod that never got ready has said.
func (p *pod) saveLog(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	found, err := p.current(ctx)
	if err != nil {
		return
	}
	for _, previous := range []bool{true, false} {
		data, err := p.client.CoreV1().Pods(p.namespace).GetLogs(found.Name, &corev1.PodLogOptions{Previous: previous}).DoRaw(ctx)
		if err == nil && len(data) > 0 {
			_ = os.WriteFile(p.launch.Log, data, 0o600)
			return
		}
	}
}

// watchRestarts closes done when the container has ended: a restart within a round is never a pass.
func (p *pod) watchRestarts(ctx context.Context) {
	for {
		found, err := p.client.CoreV1().Pods(p.namespace).Get(ctx, p.name, metav1.GetOptions{})
		switch {
		case ctx.Err() != nil:
			return
		case apierrors.IsNotFound(err):
			p.end(p.died("the pod is gone"))
			return
		case err == nil && ending(found) != "":
			select { // for the last lines of the log
			case <-ctx.Done():
			case <-time.After(watchInterval):
			}
			p.end(p.died(ending(found)))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchInterval):
		}
	}
}

func (p *pod) end(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.done)
	})
}

func (p *pod) Target() leak.Target { return p.target }

func (p *pod) Info() leak.SubjectInfo {
	info := p.launch.Info
	info.Placement = leak.PlacementPod
	return info
}

func (p *pod) Done() <-chan struct{} { return p.done }

func (p *pod) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Stop deletes everything that RunPod made and waits until the pod is gone.
func (p *pod) Stop(ctx context.Context) error {
	if p.stop != nil {
		p.stop()
		p.tasks.Wait()
	}
	p.end(nil)
	background, grace := metav1.DeletePropagationForeground, podStopGrace
	o := metav1.DeleteOptions{PropagationPolicy: &background, GracePeriodSeconds: &grace}
	err := errors.Join(
		ignoreNotFound(p.client.AppsV1().Deployments(p.namespace).Delete(ctx, subjectName, o)),
		ignoreNotFound(p.client.RbacV1().RoleBindings(p.namespace).Delete(ctx, subjectName, metav1.DeleteOptions{})),
		ignoreNotFound(p.client.RbacV1().Roles(p.namespace).Delete(ctx, subjectName, metav1.DeleteOptions{})),
		ignoreNotFound(p.client.CoreV1().ServiceAccounts(p.namespace).Delete(ctx, subjectName, metav1.DeleteOptions{})))
	if err != nil {
		return fmt.Errorf("delete the subject's objects: %w", err)
	}
	for {
		_, err1 := p.client.AppsV1().Deployments(p.namespace).Get(ctx, subjectName, metav1.GetOptions{})
		_, err2 := p.current(ctx)
		if apierrors.IsNotFound(err1) && err2 != nil && ctx.Err() == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the subject's pod is not gone yet: %w", context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
