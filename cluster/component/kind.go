package component

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/leakrig/leakrig/cluster/apiserver"
	"github.com/leakrig/leakrig/cluster/engine"
	"github.com/leakrig/leakrig/cluster/node"
	"github.com/leakrig/leakrig/cluster/nodeimage"
	"github.com/leakrig/leakrig/cluster/upstream"
	"github.com/leakrig/leakrig/leak"
)

// Kind are the components of a kind cluster.
type Kind struct {
	*apiserver.Connection
	Engine engine.Engine
	// Name is that of the kind cluster.
	Name string
	Pins []leak.NodePin
}

// node returns the node of this name, as the engine calls it.
func (c *Kind) node(name string) node.Node { return node.Node{Engine: c.Engine, Name: name} }

// inPod is a subject that runs as a pod.
type inPod interface {
	// Place returns the pod and its node.
	Place() (pod, node string)
}

// Observe reaches a component of the cluster: through the API server, or on its node through the engine.
func (c *Kind) Observe(ctx context.Context, spec leak.ComponentSpec, program leak.Subject) (leak.Subject, error) {
	part, following := newComponent(ctx, spec)
	var pod, podNode string
	if p, ok := program.(inPod); ok {
		pod, podNode = p.Place()
	}
	nodeName := c.Name + "-control-plane"
	switch {
	case spec.Node != "":
		nodeName = c.Name + "-" + spec.Node
	case pod != "" && slices.Contains([]string{leak.Kubelet, leak.Containerd, leak.ContainerdShim}, spec.Component):
		nodeName = podNode
	}
	err := c.reach(ctx, following, part, spec.Component, nodeName, pod)
	if err == nil {
		err = c.asPinned(part, spec.Component)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("component %s on %s: %w", spec.Name, nodeName, err), part.Stop(ctx))
	}
	return part, nil
}

// asPinned reports whether the running component was built as the variant pins it.
func (c *Kind) asPinned(part *component, kind string) error {
	for _, pin := range c.Pins {
		if pin.Command != kind && (pin.Command != leak.Containerd || kind != leak.ContainerdShim) {
			continue
		}
		if _, err := pinnedModules(pin, part.info.Modules); err != nil {
			return err
		}
	}
	return nil
}

// pinnedModules returns the modules of a binary that a pin names. It returns an error if a module has another
// version.
func pinnedModules(pin leak.NodePin, modules []leak.Module) (found []leak.Module, err error) {
	versions := map[string]string{}
	switch pin.Command {
	case "containerd":
		versions[upstream.ContainerdPath(pin.Version)] = pin.Version
	case "kubelet":
		versions["k8s.io/kubernetes"] = pin.Version
	case "runc":
		versions["github.com/opencontainers/runc"] = pin.Version
	}
	maps.Copy(versions, pin.Modules)
	for _, m := range modules {
		_, replaced, _ := strings.Cut(m.Replace, " ")
		if want := versions[m.Path]; want != "" && (m.Version == want || replaced == want) {
			delete(versions, m.Path)
			found = append(found, m)
		}
	}
	if len(versions) > 0 {
		return nil, fmt.Errorf("it was not built as pinned: go version -m of the binary does not show %v", versions)
	}
	return found, nil
}

// Pinned reads the build information of the pinned commands on the node.
func (c *Kind) Pinned(ctx context.Context) ([]leak.NodeCommand, error) {
	var all []leak.NodeCommand
	for _, pin := range c.Pins {
		paths, err := nodeimage.PinnedPaths(pin)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			binary, err := c.Engine.Output(ctx, "exec", c.Name+"-control-plane", "cat", path)
			if err != nil {
				return nil, fmt.Errorf("read %s on the node: %w", path, err)
			}
			info := leak.ReadBinary(bytes.NewReader(binary))
			modules, err := pinnedModules(pin, info.Modules)
			if err != nil {
				return nil, fmt.Errorf("%s on the node: %w", path, err)
			}
			all = append(all, leak.NodeCommand{Path: path, GoVersion: info.GoVersion, Modules: modules})
		}
	}
	return all, nil
}

// reach sets the target of a component and follows its process.
func (c *Kind) reach(ctx, following context.Context, part *component, kind, nodeName, pod string) (err error) {
	var proc fs.FS
	at := c.node(nodeName)
	switch kind {
	case leak.Kubelet:
		if part.target, err = viaAPIServer(c.Connection, "/api/v1/nodes/"+nodeName+"/proxy"); err == nil {
			proc, err = at.ServiceProc(ctx, kind)
		}
	case leak.Containerd:
		var socket http.RoundTripper
		if socket, err = at.Socket(ctx, "/run/containerd/debug.sock"); err == nil {
			part.target = leak.Target{
				URL: "http://containerd", Pprof: "http://containerd/debug/pprof", Kubeconfig: c.Kubeconfig(), Namespace: c.Namespace,
				Transport: func() http.RoundTripper { return socket },
			}
			proc, err = at.ServiceProc(ctx, kind)
		}
	case leak.ContainerdShim:
		if pod == "" {
			return leak.WithHint(errors.New("the shim of which pod? no subject runs as a pod"), "subject.build and placement pod")
		}
		var shim *node.Shim
		if shim, err = at.Shim(ctx, c.Namespace, pod); err == nil {
			part.target = leak.Target{Dump: shim.Dump, Kubeconfig: c.Kubeconfig(), Namespace: c.Namespace}
			proc, err = at.Proc(ctx, shim.PID)
		}
	case leak.KubeAPIServer:
		if part.target, err = viaAPIServer(c.Connection, ""); err == nil {
			proc, err = at.PodProc(ctx, metav1.NamespaceSystem, kind+"-"+nodeName)
		}
	case leak.KubeScheduler:
		proc, err = c.staticPod(ctx, following, part, kind, nodeName, 10259)
	case leak.KubeControllerManager:
		proc, err = c.staticPod(ctx, following, part, kind, nodeName, 10257)
	default:
		return fmt.Errorf("unknown component %q", kind)
	}
	if err != nil {
		return err
	}
	return part.follow(following, proc)
}

// staticPod reaches a component of the control plane at its secure port, by a port-forward into its pod:
// kubeadm lets them listen on loopback alone.
func (c *Kind) staticPod(ctx, following context.Context, part *component, name, nodeName string, port int32) (fs.FS, error) {
	pod := name + "-" + nodeName
	address, err := c.Forward(following, &part.tasks, metav1.NamespaceSystem, pod, port)
	if err != nil {
		return nil, err
	}
	tls, err := rest.TLSConfigFor(c.Config)
	if err != nil {
		return nil, err
	}
	// The component has a self-signed certificate. The connection goes through the API server.
	tls.InsecureSkipVerify, tls.RootCAs, tls.ServerName = true, nil, ""
	base := "https://" + address
	part.target = leak.Target{
		URL: base, Pprof: base + "/debug/pprof", Kubeconfig: c.Kubeconfig(), Namespace: c.Namespace,
		Transport: func() http.RoundTripper {
			return &http.Transport{TLSClientConfig: tls.Clone(), DisableKeepAlives: true}
		},
	}
	return c.node(nodeName).PodProc(ctx, metav1.NamespaceSystem, pod)
}
