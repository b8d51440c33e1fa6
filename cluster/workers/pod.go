package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leakrig/leakrig/cluster/apiserver"
	"github.com/leakrig/leakrig/leak"
)

// Command is the command of leakrig that a worker's pod runs.
const Command = "worker"

// Environment variables of a worker, in addition to the index from the Job controller.
const (
	workersVariable   = "LEAKRIG_WORKERS"
	podVariable       = "LEAKRIG_POD"
	namespaceVariable = "LEAKRIG_NAMESPACE"
	indexVariable     = "JOB_COMPLETION_INDEX"
	orderFolder       = "/order"
)

const (
	// tellTimeout is how long a worker tries to report.
	tellTimeout = time.Minute
	// takeTimeout is how long a worker tries to take its place: its rights may come a little later than itself.
	takeTimeout = 20 * time.Second
)

// Worker is what a worker's pod knows.
type Worker struct {
	// Index is its place among the workers, from 0.
	Index int
	Order []byte
	// Kubeconfig leads to the cluster, with the rights of the workers.
	Kubeconfig string
	// Begin takes the worker's place, as soon as it has read its order, and waits for the common start.
	Begin func(ctx context.Context) error
}

// Main is the main function of a worker in a pod from RunWorkers. do reads the order, starts, works, and returns
// its result. If ctx ends because the pod is being deleted, the worker reports its progress.
func Main(ctx context.Context, do func(ctx context.Context, w Worker) ([]byte, error)) error {
	apiserver.Quiet()
	w, err := findWorker()
	if err != nil {
		return leak.Usage("this command is for the pods that `leakrig run` starts where an action says workers", "%w", err)
	}
	defer w.disconnect()
	result, err := do(ctx, Worker{w.index, w.order, w.kubeconfig, w.begin})
	var taken *placeTaken
	switch {
	case errors.As(err, &taken) || err != nil && ctx.Err() != nil:
		return err // there is nothing to tell
	case err != nil:
		return errors.Join(err, w.report(ctx, map[string]string{failedKey: err.Error(), hintKey: leak.Hint(err)}))
	}
	told := map[string]string{resultKey: string(result), lateKey: w.late.String()}
	if ctx.Err() != nil {
		told[cutKey] = "stopped"
	}
	return w.report(ctx, told)
}

// worker is a worker's pod.
type worker struct {
	index      int
	order      []byte
	kubeconfig string
	name, pod  string
	maps       corev1client.ConfigMapInterface
	disconnect func()
	late       time.Duration
	poll       time.Duration
}

func findWorker() (*worker, error) {
	w := &worker{name: os.Getenv(workersVariable), pod: os.Getenv(podVariable)}
	namespace := os.Getenv(namespaceVariable)
	if w.name == "" || w.pod == "" || namespace == "" {
		return nil, fmt.Errorf("not a worker's pod: %s, %s or %s is not set", workersVariable, podVariable, namespaceVariable)
	}
	var err error
	if w.index, err = strconv.Atoi(os.Getenv(indexVariable)); err != nil {
		return nil, fmt.Errorf("%s: %w", indexVariable, err)
	}
	if w.order, err = os.ReadFile(filepath.Join(orderFolder, orderKey)); err != nil {
		return nil, err
	}
	config, err := apiserver.PodConfig(apiserver.ServiceAccount)
	if err != nil {
		return nil, err
	}
	if config == nil {
		return nil, errors.New("not in a pod: no address of an API server")
	}
	config.Contexts[config.CurrentContext].Namespace = namespace
	w.kubeconfig = filepath.Join(os.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, w.kubeconfig); err != nil {
		return nil, err
	}
	rights, err := clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	rights.QPS = -1
	client, err := rest.HTTPClientFor(rights)
	if err != nil {
		return nil, err
	}
	all, err := kubernetes.NewForConfigAndClient(rights, client)
	if err != nil {
		return nil, err
	}
	w.maps, w.disconnect = all.CoreV1().ConfigMaps(namespace), client.CloseIdleConnections
	w.poll = workerPoll / 2
	return w, nil
}

// placeTaken is the error of a pod whose index is taken by another pod. It is not reported.
type placeTaken struct{ error }

// begin has no open connection when it returns, because the API server may be under observation.
func (w *worker) begin(ctx context.Context) error {
	defer w.disconnect()
	if err := w.take(ctx); err != nil {
		return err
	}
	unset := time.Now() // when the start was not set yet
	for {
		looked := time.Now()
		told, err := w.maps.Get(ctx, w.name, metav1.GetOptions{})
		if err == nil && told.Data[startKey] != "" {
			at, err := time.Parse(time.RFC3339Nano, told.Data[startKey])
			if err != nil {
				return fmt.Errorf("start: %w", err)
			}
			return w.until(ctx, at, unset)
		}
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("leakrig has gone: %w", err)
		}
		if err == nil {
			unset = looked
		}
		if err := pause(ctx, w.poll); err != nil {
			return err
		}
		w.poll = min(w.poll+w.poll/50, startLead/2) // who waits long is one of many
	}
}

// take takes the worker's place, unless another pod has it.
func (w *worker) take(ctx context.Context) error {
	for began := time.Now(); ; {
		_, err := w.maps.Patch(ctx, w.place(), types.JSONPatchType, takePlace(w.pod), metav1.PatchOptions{})
		switch {
		case err == nil:
			return nil
		case apierrors.IsInvalid(err):
			// It is not empty: it may be this very pod's, by a patch whose answer was lost. A patch of nothing reads it.
			told, err := w.maps.Patch(ctx, w.place(), types.MergePatchType, patchOf(nil), metav1.PatchOptions{})
			if err == nil && told.Data[podKey] == w.pod {
				return nil
			}
			if err == nil {
				return &placeTaken{fmt.Errorf("place %d of the workers is that of %s: its share is not performed again", w.index+1, told.Data[podKey])}
			}
		case apierrors.IsNotFound(err) || time.Since(began) > takeTimeout:
			return &placeTaken{fmt.Errorf("place %d of the workers: %w", w.index+1, err)}
		}
		if err := pause(ctx, w.poll); err != nil {
			return err
		}
	}
}

// until waits for the start, but at most for the lead with which it was set. So a wrong clock can delay the start by
// at most that lead. The reported lateness is at most the time since the start was last seen unset.
func (w *worker) until(ctx context.Context, at, unset time.Time) error {
	w.disconnect()
	if err := pause(ctx, min(time.Until(at), startLead)); err != nil {
		return err
	}
	w.late = min(max(time.Since(at), 0), time.Since(unset))
	return nil
}

func (w *worker) place() string { return w.name + "-" + strconv.Itoa(w.index) }

// report sends a report to leakrig, even if ctx has ended.
func (w *worker) report(ctx context.Context, words map[string]string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
	defer cancel()
	for {
		_, err := w.maps.Patch(ctx, w.place(), types.MergePatchType, patchOf(words), metav1.PatchOptions{})
		if err == nil || apierrors.IsNotFound(err) || pause(ctx, w.poll) != nil {
			return err
		}
	}
}

// pause waits, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return ctx.Err()
	}
}

// patchOf is a merge patch of a ConfigMap's data.
func patchOf(data map[string]string) []byte {
	text, _ := json.Marshal(map[string]any{"data": data}) // of text alone
	return text
}

// takePlace is a patch that fails where another pod has the place.
func takePlace(pod string) []byte {
	text, _ := json.Marshal([]map[string]string{
		{"op": "test", "path": "/data/" + podKey, "value": ""},
		{"op": "replace", "path": "/data/" + podKey, "value": pod},
	})
	return text
}
