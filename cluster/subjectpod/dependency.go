package subjectpod

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// silence is how long a connection must stay open to count as accepted: a port-forward accepts every connection, and
// closes it if no program in the pod listens.
const silence = 300 * time.Millisecond

// createService gives a dependency an address that it keeps when its pod is replaced.
func (p *Pod) createService(ctx context.Context) error {
	s, err := p.Client.CoreV1().Services(p.Namespace).Create(ctx, &corev1.Service{
		ObjectMeta: p.meta(),
		Spec:       corev1.ServiceSpec{Selector: p.podLabels(), Ports: []corev1.ServicePort{{Port: p.port}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the Service of %s: %w", p.launch.What(), err)
	}
	p.service = "http://" + net.JoinHostPort(s.Spec.ClusterIP, strconv.Itoa(int(p.port)))
	return nil
}

// accepts returns an error if the program does not accept connections.
func (p *Pod) accepts(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: silence}).DialContext(ctx, "tcp", strings.TrimPrefix(p.target.URL, "http://"))
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(silence))
	if _, err := conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("no program listens on port %d: %w", p.port, err)
	}
	return nil
}

// Down ends the pod of a dependency and waits until it is gone. up starts a new one at the same address.
func (p *Pod) Down(ctx context.Context) (up func(context.Context) error, err error) {
	p.stop() // otherwise its end would count as a crash
	p.tasks.Wait()
	p.followed = false
	up = func(ctx context.Context) error {
		if err := p.scale(ctx, 1); err != nil {
			return err
		}
		return p.start(ctx)
	}
	if err := p.scale(ctx, 0); err != nil {
		return up, err
	}
	for {
		if _, err := p.Current(ctx); errors.Is(err, errNoPod) {
			return up, nil
		}
		select {
		case <-ctx.Done():
			return up, fmt.Errorf("the pod of %s does not end: %w", p.launch.What(), context.Cause(ctx))
		case <-time.After(readyPoll):
		}
	}
}

func (p *Pod) scale(ctx context.Context, replicas int) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if _, err := p.Client.AppsV1().Deployments(p.Namespace).Patch(ctx, p.objects, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("scale %s to %d: %w", p.launch.What(), replicas, err)
	}
	return nil
}

// served waits until the Service leads to the pod.
func (p *Pod) served(ctx context.Context) error {
	for {
		slices, err := p.Client.DiscoveryV1().EndpointSlices(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + p.objects})
		if err == nil {
			for _, s := range slices.Items {
				for _, e := range s.Endpoints {
					if e.TargetRef != nil && e.TargetRef.Name == p.name && e.Conditions.Ready != nil && *e.Conditions.Ready {
						return nil
					}
				}
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the Service of %s does not lead to its pod: %w", p.launch.What(), errors.Join(context.Cause(ctx), err))
		case <-time.After(readyPoll):
		}
	}
}
