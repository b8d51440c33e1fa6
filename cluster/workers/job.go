// Package workers runs load in pods. job.go is what leakrig does, pod.go what each worker does.
package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/leakrig/leakrig/cluster/apiserver"
	"github.com/leakrig/leakrig/leak"
)

const (
	// workerReadyTimeout is how long workers may take to be ready, a pull of their image included.
	workerReadyTimeout = 90 * time.Second
	// workerStarts is how often all workers start again if one is lost before there was any load.
	workerStarts = 3
	// workerMemory is the memory of a worker in bytes. programMemory is added for each program that it runs at the same
	// time.
	workerMemory  = 512 << 20
	programMemory = 256 << 20
	// workerGrace is how long a stopped worker may take to report, in seconds.
	workerGrace = int64(10)
	// workerPoll is how often leakrig looks at workers, and workers at least for their start.
	workerPoll = 200 * time.Millisecond
	// startLead is how far ahead the start is set, so that all have seen it when it comes.
	startLead = time.Second
	// unreachable is how long a pod stays on a node that does not answer.
	unreachable = int64(10)
	// blindFor is how long the API server may fail to list workers.
	blindFor = 30 * time.Second
)

// Keys of the objects that leakrig and its workers leave each other word in.
const (
	orderKey  = "order"
	startKey  = "start"
	podKey    = "pod"    // of the worker that has the place
	lateKey   = "late"   // how long after the start it began
	resultKey = "result" // what it did
	cutKey    = "cut"    // why it ended before its work did
	failedKey = "failed" // why there is nothing to tell
	hintKey   = "hint"
)

// Run runs workers, and starts all of them again if one is lost before there was any load.
func Run(ctx context.Context, c *apiserver.Connection, image string, pull corev1.PullPolicy, w leak.Work) ([]leak.WorkerEnd, error) {
	for start := 1; ; start++ {
		crew := &crew{Connection: c, work: w, image: image, pull: pull, name: fmt.Sprintf("workers-%d", c.Crews.Add(1))}
		ends, err := crew.run(ctx)
		var early *lostEarly
		if !errors.As(err, &early) || start == workerStarts || ctx.Err() != nil {
			return ends, err
		}
	}
}

// lostEarly is the error if a worker was lost before the start.
type lostEarly struct{ error }

func (e *lostEarly) Unwrap() error { return e.error }

// crew are the workers of one action in one round: an Indexed Job, the orders of its pods, and their reports.
type crew struct {
	*apiserver.Connection
	work  leak.Work
	image string
	pull  corev1.PullPolicy
	// name is that of the Job and of all that belongs to it.
	name string
}

// run runs the crew and removes its objects before it returns.
func (c *crew) run(ctx context.Context) (ends []leak.WorkerEnd, err error) {
	defer func() {
		if gone := c.remove(ctx); gone != nil {
			err = errors.Join(err, fmt.Errorf("workers: clear up: %w", gone))
		}
	}()
	if err := c.create(ctx); err != nil {
		return nil, fmt.Errorf("workers: create their objects: %w", err)
	}
	if err := c.ready(ctx); err != nil {
		return nil, fmt.Errorf("workers: %w", err)
	}
	started := time.Now()
	if err := c.begin(ctx); err != nil {
		return nil, fmt.Errorf("workers: start: %w", err)
	}
	if ends, err = c.collect(ctx, started); err != nil {
		return nil, fmt.Errorf("workers: %w", err)
	}
	return ends, nil
}

// place is the name of the object in which the i-th worker leaves word.
func (c *crew) place(i int) string { return c.name + "-" + strconv.Itoa(i) }

func (c *crew) meta(name string) metav1.ObjectMeta {
	labels := c.Labels()
	labels["app.kubernetes.io/name"] = c.name
	return metav1.ObjectMeta{Name: name, Labels: labels}
}

func (c *crew) selector() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + c.name}
}

// roles are what the workers may do, by namespace.
func (c *crew) roles() map[string]*rbacv1.Role {
	places := make([]string, c.work.Workers)
	for i := range places {
		places[i] = c.place(i)
	}
	roles := map[string]*rbacv1.Role{c.Namespace: {
		ObjectMeta: c.meta(c.name),
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{c.name}, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: places, Verbs: []string{"patch"}},
		},
	}}
	for _, r := range c.work.Rules {
		in := cmp.Or(r.Namespace, c.Namespace)
		if roles[in] == nil {
			roles[in] = &rbacv1.Role{ObjectMeta: c.meta(c.elsewhere())}
		}
		groups := r.APIGroups
		if len(groups) == 0 {
			groups = []string{""}
		}
		roles[in].Rules = append(roles[in].Rules, rbacv1.PolicyRule{APIGroups: groups, Resources: r.Resources, Verbs: r.Verbs})
	}
	return roles
}

// elsewhere is the name of what the crew has in a namespace that is not the run's.
func (c *crew) elsewhere() string { return c.Namespace + "-" + c.name }

// create creates the Job last, because its pods need the other objects.
func (c *crew) create(ctx context.Context) error {
	o := metav1.CreateOptions{}
	errs := []error{
		second(c.Client.CoreV1().ServiceAccounts(c.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: c.meta(c.name)}, o)),
		second(c.Client.CoreV1().Secrets(c.Namespace).Create(ctx, &corev1.Secret{ObjectMeta: c.meta(c.name), Data: map[string][]byte{orderKey: c.work.Order}}, o)),
		second(c.Client.CoreV1().ConfigMaps(c.Namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: c.meta(c.name), Data: map[string]string{startKey: ""}}, o)),
	}
	for i := range c.work.Workers {
		errs = append(errs, second(c.Client.CoreV1().ConfigMaps(c.Namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: c.meta(c.place(i)), Data: map[string]string{podKey: ""}}, o)))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	lasting, done := apiserver.Outlive(ctx)
	defer done()
	for namespace, role := range c.roles() {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: role.ObjectMeta,
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: c.name, Namespace: c.Namespace}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		}
		errs = append(errs,
			second(c.Client.RbacV1().Roles(namespace).Create(lasting, role, o)),
			second(c.Client.RbacV1().RoleBindings(namespace).Create(lasting, binding, o)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return second(c.Client.BatchV1().Jobs(c.Namespace).Create(ctx, c.job(), o))
}

func second[T any](_ T, err error) error { return err }

// job has each place filled once. A worker that is lost has its share reported as failed, not performed by
// another: backoffLimitPerIndex 0 is what lets the others go on, which a Job that fails does not. API servers
// before v1.29 do not know it; there another pod comes, finds its place taken, and goes.
func (c *crew) job() *batchv1.Job {
	n, indexed, none, many := int32(c.work.Workers), batchv1.IndexedCompletion, int32(0), int32(1000)
	deadline := int64((workerReadyTimeout + startLead + c.work.Limit).Seconds()) + 60
	kept, grace, reach, no := int32(300), workerGrace, unreachable, false
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	container := corev1.Container{
		Name: "worker", Image: c.image, ImagePullPolicy: c.pull, Command: []string{"/leakrig", Command},
		Env: []corev1.EnvVar{
			{Name: workersVariable, Value: c.name},
			{Name: podVariable, ValueFrom: field("metadata.name")},
			{Name: namespaceVariable, ValueFrom: field("metadata.namespace")},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(workerMemory+int64(c.work.Programs)*programMemory, resource.BinarySI)},
		},
		SecurityContext: apiserver.Confined(),
		VolumeMounts:    []corev1.VolumeMount{{Name: "order", MountPath: orderFolder, ReadOnly: true}, {Name: "tmp", MountPath: "/tmp"}},
		// The log has errors that the worker could not report, such as a taken index.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	toleration := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &reach}
	}
	labels := c.meta("").Labels
	return &batchv1.Job{
		ObjectMeta: c.meta(c.name),
		Spec: batchv1.JobSpec{
			Completions: &n, Parallelism: &n, CompletionMode: &indexed, BackoffLimit: &many, BackoffLimitPerIndex: &none,
			ActiveDeadlineSeconds: &deadline, TTLSecondsAfterFinished: &kept,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					ServiceAccountName: c.name, RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace, EnableServiceLinks: &no,
					Containers:  []corev1.Container{container},
					Tolerations: []corev1.Toleration{toleration(corev1.TaintNodeNotReady), toleration(corev1.TaintNodeUnreachable)},
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
					}},
					Volumes: []corev1.Volume{
						{Name: "order", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: c.name}}},
						{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
					},
				},
			},
		},
	}
}

// view is the state of a crew on the API server.
type view struct {
	pods   []corev1.Pod
	places []map[string]string // by worker
}

// look asks for the pods first: a result that is not there yet when a pod has ended will not come any more.
func (c *crew) look(ctx context.Context) (view, error) {
	v := view{places: make([]map[string]string, c.work.Workers)}
	pods, err := c.Client.CoreV1().Pods(c.Namespace).List(ctx, c.selector())
	if err != nil {
		return v, err
	}
	v.pods = pods.Items
	told, err := c.Client.CoreV1().ConfigMaps(c.Namespace).List(ctx, c.selector())
	if err != nil {
		return v, err
	}
	for i := range v.places {
		at := slices.IndexFunc(told.Items, func(m corev1.ConfigMap) bool { return m.Name == c.place(i) })
		if at < 0 {
			return v, fmt.Errorf("the reports of worker %d of %d are gone: configmap %s", i+1, c.work.Workers, c.place(i))
		}
		v.places[i] = told.Items[at].Data
	}
	return v, nil
}

// pod returns the pod of the i-th worker, or of its replacement, nil if there is none.
func (v view) pod(i int) *corev1.Pod {
	for p := range v.pods {
		pod := &v.pods[p]
		if taken := v.places[i][podKey]; taken != "" && pod.Name == taken || taken == "" && pod.Annotations[batchv1.JobCompletionIndexAnnotation] == strconv.Itoa(i) {
			return pod
		}
	}
	return nil
}

// poll looks at the crew until done says so. The API server may be out of reach for a while.
func (c *crew) poll(ctx context.Context, done func(v view) (bool, error)) error {
	seen := time.Now()
	for {
		v, err := c.look(ctx)
		if err == nil {
			seen = time.Now()
			if ok, err := done(v); ok || err != nil {
				return err
			}
		} else if time.Since(seen) > blindFor {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(workerPoll):
		}
	}
}

// ready waits until every place is taken by a worker that has read its order.
func (c *crew) ready(ctx context.Context) error {
	due := time.Now().Add(workerReadyTimeout)
	// missed are the pods that had a place and were not listed: made since the list, if it was once; gone, if twice.
	missed := make([]string, c.work.Workers)
	return c.poll(ctx, func(v view) (bool, error) {
		waiting := ""
		for i, told := range v.places {
			name, pod := fmt.Sprintf("worker %d of %d", i+1, c.work.Workers), v.pod(i)
			switch {
			case told[failedKey] != "":
				return false, leak.WithHint(fmt.Errorf("%s: %s", name, told[failedKey]), "%s", told[hintKey])
			case pod != nil && disrupted(pod) != "":
				return false, &lostEarly{fmt.Errorf("%s was lost before the start: %s", name, disrupted(pod))}
			case pod != nil && over(pod):
				return false, leak.WithHint(fmt.Errorf("%s ended before the start: %s", name, lossOf(pod)), "is the workers' image one of this leakrig? `leakrig image` makes one")
			case told[podKey] != "" && pod == nil && missed[i] == told[podKey]:
				return false, &lostEarly{fmt.Errorf("%s was lost before the start: its pod is gone", name)}
			case told[podKey] != "" && pod == nil:
				missed[i] = told[podKey]
				waiting = cmp.Or(waiting, name+": its pod is not listed yet")
			case told[podKey] == "" && waiting == "":
				waiting = name + ": no pod yet"
				if pod != nil {
					waiting = name + ": " + pendingBecause(pod)
				}
			}
		}
		if waiting == "" {
			return true, nil
		}
		if time.Now().After(due) {
			return false, leak.WithHint(fmt.Errorf("not ready after %s: %s", workerReadyTimeout, waiting), "is there room on the nodes for %d pods, and can they have the image %s?", c.work.Workers, c.image)
		}
		return false, nil
	})
}

// begin sets the start time. No worker waits longer than startLead after it has read it, so a wrong clock costs only
// precision.
func (c *crew) begin(ctx context.Context) error {
	at := time.Now().Add(startLead).UTC().Format(time.RFC3339Nano)
	_, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Patch(ctx, c.name, types.MergePatchType, patchOf(map[string]string{startKey: at}), metav1.PatchOptions{})
	return err
}

// collect waits until every worker has reported or is lost.
func (c *crew) collect(ctx context.Context, started time.Time) ([]leak.WorkerEnd, error) {
	ends := make([]leak.WorkerEnd, c.work.Workers)
	open := make([]bool, len(ends))
	for i := range open {
		open[i] = true
	}
	leaving := map[int]time.Time{} // when a worker's pod was first seen to be deleted
	limit := startLead + c.work.Limit
	err := c.poll(ctx, func(v view) (bool, error) {
		for i := range ends {
			if !open[i] {
				continue
			}
			pod, told := v.pod(i), v.places[i]
			if told[failedKey] != "" {
				return false, leak.WithHint(fmt.Errorf("worker %d of %d: %s", i+1, len(ends), told[failedKey]), "%s", told[hintKey])
			}
			end := &ends[i]
			end.Pod = told[podKey]
			if pod != nil {
				end.Node = cmp.Or(pod.Spec.NodeName, end.Node)
				end.Lost = cmp.Or(disrupted(pod), end.Lost)
				if _, known := leaving[i]; !known && pod.DeletionTimestamp != nil {
					leaving[i] = time.Now()
				}
			}
			since, isLeaving := leaving[i]
			switch {
			case told[resultKey] != "":
				end.Result = []byte(told[resultKey])
				end.Late, _ = time.ParseDuration(told[lateKey])
				switch {
				case told[cutKey] == "":
					end.Lost = "" // whatever came of its pod, its work was done
				case end.Lost == "":
					end.Lost = c.stopReason(ctx, end.Pod)
				}
				open[i] = false
			case pod == nil || over(pod):
				end.Lost, open[i] = cmp.Or(end.Lost, lossOf(pod)), false
			case isLeaving && time.Since(since) > time.Duration(workerGrace)*time.Second+blindFor/2:
				end.Lost, open[i] = end.Lost+", and its node no longer reports", false
			case time.Since(started) > limit:
				end.Lost, open[i] = fmt.Sprintf("no result %s after the start", limit.Round(time.Second)), false
			}
		}
		return !slices.Contains(open, true), nil
	})
	return ends, err
}

// stopReason returns why a worker was stopped. Its pod was deleted before.
func (c *crew) stopReason(ctx context.Context, name string) string {
	pod, err := c.Client.CoreV1().Pods(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "its pod was deleted"
	}
	return cmp.Or(disrupted(pod), "it was stopped")
}

// disrupted returns what deletes a pod, "" if nothing does.
func disrupted(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			return strings.TrimSuffix(condition.Reason+": "+condition.Message, ": ")
		}
	}
	switch {
	case pod.Status.Reason != "": // as the kubelet evicts, and its node's end
		return strings.TrimSuffix(pod.Status.Reason+": "+pod.Status.Message, ": ")
	case pod.DeletionTimestamp != nil:
		return "its pod was deleted"
	}
	return ""
}

// over reports whether a pod's container has ended.
func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// lossOf says how a pod without a result has ended; nil is one that is gone.
func lossOf(pod *corev1.Pod) string {
	if pod == nil {
		return "its pod was deleted"
	}
	if why := disrupted(pod); why != "" {
		return why
	}
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil {
			how := fmt.Sprintf("%s, exit code %d", t.Reason, t.ExitCode)
			if said := strings.TrimSpace(t.Message); said != "" {
				lines := strings.Split(said, "\n")
				how += ": " + lines[len(lines)-1]
			}
			return how
		}
	}
	return "the pod is " + string(pod.Status.Phase)
}

// pendingBecause says what a pod that does not run yet waits for.
func pendingBecause(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return strings.TrimSuffix(condition.Reason+": "+condition.Message, ": ")
		}
	}
	return apiserver.PodState(pod)
}

// remove deletes what create made, and waits until the pods are gone. When ctx has ended it deletes, and that
// is all: no round follows, and the namespace goes with the run.
func (c *crew) remove(ctx context.Context) error {
	interrupted := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiserver.StopTimeout)
	defer cancel()
	background := metav1.DeletePropagationBackground
	o := metav1.DeleteOptions{}
	errs := []error{apiserver.IgnoreNotFound(c.Client.BatchV1().Jobs(c.Namespace).Delete(ctx, c.name, metav1.DeleteOptions{PropagationPolicy: &background}))}
	if !interrupted {
		errs = append(errs, c.awaitGone(ctx))
	}
	for namespace, role := range c.roles() {
		errs = append(errs,
			apiserver.IgnoreNotFound(c.Client.RbacV1().RoleBindings(namespace).Delete(ctx, role.Name, o)),
			apiserver.IgnoreNotFound(c.Client.RbacV1().Roles(namespace).Delete(ctx, role.Name, o)))
	}
	errs = append(errs,
		apiserver.IgnoreNotFound(c.Client.CoreV1().Secrets(c.Namespace).Delete(ctx, c.name, o)),
		apiserver.IgnoreNotFound(c.Client.CoreV1().ConfigMaps(c.Namespace).Delete(ctx, c.name, o)),
		apiserver.IgnoreNotFound(c.Client.CoreV1().ServiceAccounts(c.Namespace).Delete(ctx, c.name, o)))
	for i := range c.work.Workers {
		errs = append(errs, apiserver.IgnoreNotFound(c.Client.CoreV1().ConfigMaps(c.Namespace).Delete(ctx, c.place(i), o)))
	}
	return errors.Join(errs...)
}

// awaitGone waits until no pod of the crew is left. One whose node does not answer is deleted without it.
func (c *crew) awaitGone(ctx context.Context) error {
	now := int64(0)
	force := time.Now().Add(time.Duration(workerGrace)*time.Second + 5*time.Second)
	for {
		pods, err := c.Client.CoreV1().Pods(c.Namespace).List(ctx, c.selector())
		if err == nil && len(pods.Items) == 0 {
			return nil
		}
		if err == nil && time.Now().After(force) {
			for _, p := range pods.Items {
				_ = c.Client.CoreV1().Pods(c.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("pods of the workers are still there"), err)
		case <-time.After(workerPoll / 2):
		}
	}
}
