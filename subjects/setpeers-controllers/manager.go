package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/rancher/steve/pkg/accesscontrol"
	"github.com/rancher/types/config"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// When a cluster gets its access control, whose handlers stay for as long as their context does.
const (
	// beforeCheck is Rancher 2.4.4: together with the record, in the manager's own context, which lives as
	// long as the server.
	beforeCheck = "before-check"
	// afterCheck is the fix: once the cluster has answered, in the record's context, which ends when the
	// cluster is stopped.
	afterCheck = "after-check"
)

// startTimeout bounds the start of one cluster's controllers.
const startTimeout = 30 * time.Second

// manager starts the user controllers of clusters and remembers which ones run.
type manager struct {
	ctx      context.Context
	scaled   *config.ScaledContext
	order    string
	clusters []cluster

	mu      sync.Mutex
	records map[string]*record // by the cluster's name
}

type cluster struct {
	name         string
	rest         rest.Config
	disconnected bool
	far          bool // its connection may be cut at any time
}

// record is a cluster whose controllers were started, or are about to be.
type record struct {
	ctx           context.Context
	cancel        context.CancelFunc
	user          *config.UserContext
	accessControl *accesscontrol.AccessStore
	started       bool
}

// setPeers starts all clusters that are not started. It ignores the refusal of the disconnected cluster. Everything
// else is an error.
func (m *manager) setPeers() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, c := range m.clusters {
		err := m.start(c)
		if refused := errors.Is(err, syscall.ECONNREFUSED); c.disconnected && refused {
			continue
		}
		if c.far && lost(err) {
			continue
		}
		if err == nil && c.disconnected {
			err = errors.New("was started, but nothing listens there")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return errors.Join(errs...)
}

// lost reports whether the connection to a cluster was refused, or ended amid a request.
func lost(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// start starts the controllers of one cluster, unless they run. A start that fails takes the record
// away again, so that the next round makes a new one.
func (m *manager) start(c cluster) error {
	r, ok := m.records[c.name]
	if !ok {
		var err error
		if r, err = m.toRecord(c); err != nil {
			return err
		}
		m.records[c.name] = r
	}
	err := m.startControllers(r)
	if err != nil {
		r.cancel()
		delete(m.records, c.name)
	}
	return err
}

// toRecord makes the record of a cluster.
func (m *manager) toRecord(c cluster) (*record, error) {
	user, err := config.NewUserContext(m.scaled, c.rest, c.name)
	if err != nil {
		return nil, err
	}
	r := &record{user: user}
	r.ctx, r.cancel = context.WithCancel(m.ctx)
	if m.order == beforeCheck {
		r.accessControl = accesscontrol.NewAccessStore(m.ctx, true, user.RBACw)
	}
	return r, nil
}

// startControllers starts the controllers of a cluster that answers.
func (m *manager) startControllers(r *record) error {
	_, err := r.user.K8sClient.CoreV1().Namespaces().Get(r.ctx, "kube-system", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if r.started {
		return nil
	}
	if m.order == afterCheck {
		r.accessControl = accesscontrol.NewAccessStore(r.ctx, true, r.user.RBACw)
	}
	// Rancher registers its user controllers here. One stands for them.
	r.user.Core.Namespaces("").AddHandler(r.ctx, "namespaces", func(string, *corev1.Namespace) (runtime.Object, error) { return nil, nil })
	done := make(chan error, 1)
	go func() { done <- r.user.Start(r.ctx) }()
	select {
	case err = <-done:
	case <-time.After(startTimeout):
		err = errors.New("the controllers have not synced in " + startTimeout.String())
	}
	r.started = err == nil
	return err
}
