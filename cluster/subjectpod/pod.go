// Package subjectpod runs a subject as a pod of a cluster.
package subjectpod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leakrig/leakrig/leak/httpclient"
	"github.com/leakrig/leakrig/rundir"

	appsv1 "k8s.io/api/apps/v1"

	corev1 "k8s.io/api/core/v1"

	rbacv1 "k8s.io/api/rbac/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leakrig/leakrig/cluster/apiserver"
	"github.com/leakrig/leakrig/leak"
)

const (
	// subjectName is that of the container, and begins the names of the subject's other objects.
	subjectName = "subject"
	podPort     = 8080
	// watchInterval is how often the pod's restarts are looked at.
	watchInterval = 500 * time.Millisecond
	podStopGrace  = int64(2)
	// readyPoll is the interval between two checks of a pod that starts, and of its ready path.
	readyPoll = 50 * time.Millisecond
)

// procFinder returns the folder below /proc of a pod's process on a node.
type procFinder func(ctx context.Context, node, pod string) (fs.FS, error)

// Run runs the program of an image as a Deployment of one pod in the run's namespace, with the rights and limits
// that the scenario asks for and no others. Its operations and pprof are reached by a port-forward through the API
// server.
func Run(ctx context.Context, c *apiserver.Connection, l leak.Launch, image string, find procFinder, progress leak.Progress) (leak.Subject, error) {
	p := &Pod{
		Connection: c, launch: l, port: podPort, done: make(chan struct{}), find: find, progress: progress,
		objects: fmt.Sprintf("%s-%d", subjectName, c.Pods.Add(1)),
	}
	if l.Port != 0 {
		p.port = int32(l.Port)
	}
	err := p.create(ctx, image)
	if err == nil {
		err = p.start(ctx)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiserver.StopTimeout)
		defer cancel()
		return nil, errors.Join(err, p.Stop(ctx))
	}
	return p, nil
}

// Pod is a subject that runs in a cluster.
type Pod struct {
	*apiserver.Connection
	launch   leak.Launch
	port     int32
	find     procFinder
	progress leak.Progress
	// objects is the name of everything that is made for this subject: an earlier one may still be going.
	objects string
	name    string // the pod's
	node    string
	service string // address of the Service of a dependency, "" for a subject
	target  leak.Target

	stop  context.CancelFunc // ends port-forward, log and watch
	tasks sync.WaitGroup
	once  sync.Once
	done  chan struct{}
	err   error // set before done is closed

	followed bool // it was ready
}

func (p *Pod) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: p.objects, Namespace: p.Namespace, Labels: p.podLabels()}
}

func (p *Pod) podLabels() map[string]string {
	labels := p.Labels()
	labels["app.kubernetes.io/name"] = p.objects
	return labels
}

func (p *Pod) create(ctx context.Context, image string) error {
	deployment, err := p.deployment(image)
	if err != nil {
		return err
	}
	_, err1 := p.Client.CoreV1().ServiceAccounts(p.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: p.meta()}, metav1.CreateOptions{})
	_, err2 := p.Client.RbacV1().Roles(p.Namespace).Create(ctx, p.role(), metav1.CreateOptions{})
	_, err3 := p.Client.RbacV1().RoleBindings(p.Namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: p.meta(),
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: p.objects, Namespace: p.Namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: p.objects},
	}, metav1.CreateOptions{})
	_, err4 := p.Client.AppsV1().Deployments(p.Namespace).Create(ctx, deployment, metav1.CreateOptions{})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return fmt.Errorf("create the objects of %s: %w", p.launch.What(), err)
	}
	if p.launch.Dependency {
		return p.createService(ctx)
	}
	return nil
}

func (p *Pod) role() *rbacv1.Role {
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

// args are the arguments, with ports and addresses filled in.
func (p *Pod) args() []string {
	var args []string
	for _, arg := range p.launch.Args {
		args = append(args, p.launch.Fill(arg, int(p.port)))
	}
	return args
}

func (p *Pod) deployment(image string) (*appsv1.Deployment, error) {
	limits, err := resourceList(p.launch.Limits)
	if err != nil {
		return nil, err
	}
	one, grace, no := int32(1), podStopGrace, false
	container := corev1.Container{
		Name: subjectName, Image: image, ImagePullPolicy: corev1.PullNever,
		Args: p.args(), Env: p.env(),
		Ports:           []corev1.ContainerPort{{ContainerPort: p.port}},
		Resources:       corev1.ResourceRequirements{Limits: limits, Requests: corev1.ResourceList{corev1.ResourceMemory: podMemory(limits)}},
		SecurityContext: apiserver.Confined(),
	}
	return &appsv1.Deployment{
		ObjectMeta: p.meta(),
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector: &metav1.LabelSelector{MatchLabels: p.podLabels()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: p.podLabels()},
				Spec: corev1.PodSpec{
					ServiceAccountName: p.objects, TerminationGracePeriodSeconds: &grace, EnableServiceLinks: &no,
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

// podMemory is what a node sets aside for a subject. Without a word it would be the whole limit, and a node hold few replicas.
func podMemory(limits corev1.ResourceList) resource.Quantity {
	asked := resource.MustParse("64Mi")
	if limit := limits[corev1.ResourceMemory]; limit.Cmp(asked) < 0 {
		return limit
	}
	return asked
}

func (p *Pod) env() []corev1.EnvVar {
	port := strconv.Itoa(int(p.port))
	env := []corev1.EnvVar{
		{Name: "PORT", Value: port},
		{Name: "LEAKRIG_LISTEN", Value: "0.0.0.0:" + port},
		{Name: "GODEBUG", Value: leak.WithProfileRate(p.launch.Env["GODEBUG"])},
	}
	for name, value := range p.launch.Env {
		if name != "GODEBUG" {
			env = append(env, corev1.EnvVar{Name: name, Value: p.launch.Fill(value, int(p.port))})
		}
	}
	slices.SortFunc(env, func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	return env
}

var errNoPod = errors.New("no pod yet")

// Current finds the pod of this subject. It is an error when there is none.
func (p *Pod) Current(ctx context.Context) (*corev1.Pod, error) {
	list, err := p.Client.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: p.podLabels()})})
	if err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, errNoPod
	}
	return &list.Items[0], nil
}

// start waits until the subject answers through its port-forward, which it keeps. It does not use the kubelet's
// probes: they run once a second and would be load during the rounds.
func (p *Pod) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.launch.ReadyTimeout)
	defer cancel()
	last := errors.New("no pod was made")
	for {
		found, err := p.Current(ctx)
		if err == nil {
			if ended := ending(found); ended != "" {
				p.saveLog(ctx)
				return p.died(ended)
			}
			last = errors.New(apiserver.PodState(found))
			if found.Spec.NodeName != "" {
				p.name, p.node = found.Name, found.Spec.NodeName
				if err = p.reach(ctx); err == nil {
					err = p.follow(ctx)
					if err == nil && p.launch.Dependency {
						err = p.served(ctx)
					}
					return err
				}
				if found.Status.Phase == corev1.PodRunning {
					last = err
				}
			}
		}
		select {
		case <-ctx.Done():
			if ctx.Err() == context.Canceled {
				return context.Cause(ctx)
			}
			p.saveLog(context.WithoutCancel(ctx))
			return p.launch.NotReady(last)
		case <-time.After(readyPoll):
		}
	}
}

// reach opens a port-forward and keeps it if the subject answers that it is ready.
func (p *Pod) reach(ctx context.Context) error {
	forwarding, stop := context.WithCancel(context.WithoutCancel(ctx))
	address, err := p.Forward(forwarding, &p.tasks, p.Namespace, p.name, p.port)
	if err != nil {
		stop()
		return err
	}
	base := "http://" + address
	p.target = leak.Target{
		URL: base, Pprof: base + strings.TrimSuffix(p.launch.Pprof, "/"),
		Program:    p.launch.Program,
		InCluster:  p.address,
		Process:    p.containerID,
		Kubeconfig: p.Kubeconfig(), Namespace: p.Namespace, Selector: "app.kubernetes.io/name=" + p.objects,
		// Every request asks the subject to close the connection. containerd's port-forward keeps a connection that
		// this side closes open for another second in the pod. Load that keeps connections closes them itself.
		Transport: func() http.RoundTripper { return &http.Transport{DisableKeepAlives: true} },
	}
	if err := p.askReady(ctx); err != nil {
		stop()
		return err
	}
	p.stop = stop
	return nil
}

// address returns where other pods reach the program: its Service, or the pod itself. The kubelet reports it about a second after the subject has
// started to answer.
func (p *Pod) address(ctx context.Context) (string, error) {
	if p.service != "" {
		return p.service, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("the kubelet reports none"))
	defer cancel()
	for {
		found, err := p.Current(ctx)
		if err == nil && found.Status.PodIP != "" {
			return "http://" + net.JoinHostPort(found.Status.PodIP, strconv.Itoa(int(p.port))), nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("address of the subject's pod: %w", errors.Join(context.Cause(ctx), err))
		case <-time.After(readyPoll):
		}
	}
}

func (p *Pod) askReady(ctx context.Context) error {
	if p.launch.Ready == "" {
		return p.accepts(ctx)
	}
	client := httpclient.New(p.target.Transport())
	client.Timeout = 5 * time.Second
	resp, err := httpclient.Get(ctx, client, p.target.URL+p.launch.Ready, nil)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}

// follow finds the subject's /proc and starts to follow its log and restarts.
func (p *Pod) follow(ctx context.Context) error {
	var err error
	if p.target.Proc, err = p.find(ctx, p.node, p.name); err != nil && ctx.Err() == nil {
		p.target.Proc, err = p.find(ctx, p.node, p.name) // an engine under load fails at times
	}
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.progress.Log("%s: the engine does not let its /proc be read, so the kubelet's figure of its memory is all there is: %v", p.launch.Variant, err)
		p.target.Proc, p.target.Resident = nil, p.Resident
	}
	p.followed = true
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	stopForward := p.stop
	p.stop = func() { stop(); stopForward() }
	p.tasks.Go(func() { p.followLog(following) })
	p.tasks.Go(func() { p.watchRestarts(following) })
	return nil
}

// ending describes how the container ended, "" while it runs for the first time.
func ending(pod *corev1.Pod) string {
	gone := strings.TrimSpace("the pod is gone: " + pod.Status.Reason + " " + pod.Status.Message)
	if pod.DeletionTimestamp != nil { // then its container ends as it was told to, which is not what happened
		return gone
	}
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
	if pod.Status.Phase == corev1.PodFailed {
		return gone
	}
	return ""
}

// containerID returns the ID of the container that runs the subject, "" if there is none or the kubelet has not
// reported it yet.
func (p *Pod) containerID(ctx context.Context) (string, error) {
	found, err := p.Current(ctx)
	if err != nil {
		return "", fmt.Errorf("the subject's container: %w", err)
	}
	for _, s := range found.Status.ContainerStatuses {
		if s.State.Running != nil {
			return "container " + s.ContainerID + " of pod " + found.Name, nil
		}
	}
	return "", nil
}

func (p *Pod) died(how string) error {
	hint := "see " + p.launch.Log
	// containerd reports OOMKilled only if it hears of the kill before the exit, otherwise Error.
	if limit := p.launch.Limits["memory"]; strings.Contains(how, "OOMKilled") || limit != "" && strings.Contains(how, "exit code 137") {
		hint = fmt.Sprintf("the kernel kills it when its memory reaches the limit (%s): subject.limits in the scenario raises the limit; %s", cmp.Or(limit, "the node's memory"), hint)
	}
	return leak.WithHint(fmt.Errorf("%s died: %s%s", p.launch.What(), how, rundir.LogTail(p.launch.Log)), "%s", hint)
}

func (p *Pod) followLog(ctx context.Context) {
	stream, err := p.Client.CoreV1().Pods(p.Namespace).GetLogs(p.name, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		return // the log is for people; what matters is watched elsewhere
	}
	defer stream.Close()
	if f, err := rundir.OpenLog(p.launch.Log); err == nil {
		defer f.Close()
		_, _ = io.Copy(f, stream)
	}
}

// saveLog keeps what a pod that never got ready has said.
func (p *Pod) saveLog(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	found, err := p.Current(ctx)
	if err != nil {
		return
	}
	for _, previous := range []bool{true, false} {
		stream, err := p.Client.CoreV1().Pods(p.Namespace).GetLogs(found.Name, &corev1.PodLogOptions{Previous: previous}).Stream(ctx)
		if err != nil {
			continue
		}
		n, _ := copyLog(p.launch.Log, stream)
		if stream.Close(); n > 0 {
			return
		}
	}
}

// copyLog writes a log from a stream, replacing the file.
func copyLog(path string, from io.Reader) (int64, error) {
	if err := os.Truncate(path, 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	f, err := rundir.OpenLog(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(f, from)
}

// watchRestarts closes done when the container has ended: a restart within a round is never a pass.
func (p *Pod) watchRestarts(ctx context.Context) {
	for {
		found, err := p.Client.CoreV1().Pods(p.Namespace).Get(ctx, p.name, metav1.GetOptions{})
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

func (p *Pod) end(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.done)
	})
}

// Place returns the pod and its node.
func (p *Pod) Place() (pod, node string) { return p.name, p.node }

func (p *Pod) Target() leak.Target { return p.target }

func (p *Pod) Info() leak.SubjectInfo {
	info := p.launch.Info
	info.Placement = leak.PlacementPod
	return info
}

func (p *Pod) Done() <-chan struct{} { return p.done }

func (p *Pod) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Stop has everything that RunPod made deleted. It does not wait until the kubelet has ended the pod:
// the next subject has other names, and the cluster's Close sees to the rest.
func (p *Pod) Stop(ctx context.Context) error {
	died := p.lastLook(ctx)
	if p.stop != nil {
		p.stop()
		p.tasks.Wait()
	}
	p.end(nil)
	propagation := metav1.DeletePropagationBackground
	o := metav1.DeleteOptions{PropagationPolicy: &propagation}
	err := errors.Join(
		apiserver.IgnoreNotFound(p.Client.AppsV1().Deployments(p.Namespace).Delete(ctx, p.objects, o)),
		apiserver.IgnoreNotFound(p.Client.CoreV1().Services(p.Namespace).Delete(ctx, p.objects, o)),
		apiserver.IgnoreNotFound(p.Client.RbacV1().RoleBindings(p.Namespace).Delete(ctx, p.objects, o)),
		apiserver.IgnoreNotFound(p.Client.RbacV1().Roles(p.Namespace).Delete(ctx, p.objects, o)),
		apiserver.IgnoreNotFound(p.Client.CoreV1().ServiceAccounts(p.Namespace).Delete(ctx, p.objects, o)))
	if err != nil {
		return errors.Join(died, fmt.Errorf("delete the objects of %s: %w", p.launch.What(), err))
	}
	return died
}

// lastLook reports whether the pod has ended since the last check of watchRestarts: the last samples would then be of
// another container.
func (p *Pod) lastLook(ctx context.Context) error {
	if !p.followed || p.Err() != nil {
		return nil // it never got ready, or its end is known
	}
	found, err := p.Client.CoreV1().Pods(p.Namespace).Get(ctx, p.name, metav1.GetOptions{})
	if err == nil && ending(found) != "" {
		return p.died(ending(found))
	}
	return nil
}
