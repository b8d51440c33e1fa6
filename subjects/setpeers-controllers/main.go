// Command setpeers-controllers is the part of a Rancher 2.4 server that the incident is about. Every POST to
// /setPeers is one call of setPeers, which Rancher makes every two minutes: it starts the user controllers of every
// cluster that are not started. One of the clusters is disconnected, so every call starts it again, and fails again.
//
// # Real and re-enacted parts
//
// All started code is Rancher's own, from the modules of the 2.4 release line: the contexts of rancher/types, the
// controllers of norman and wrangler, the access control of steve, on client-go v0.18. The connected clusters are the
// scenario's API server, reached as separate clusters.
//
// Only the manager in manager.go is new code, based on the incident's stack and the upstream issue, because the
// module proxy does not have github.com/rancher/rancher. The upstream fix (rancher/rancher#30122) changed the order
// of its steps, which -access-control selects. Neither order allocates anything itself: steve's NewAccessStore
// creates the handlers and their memory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"syscall"

	"github.com/leakrig/leakrig/subjects/serve"
	"github.com/rancher/types/config"
	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	order := flag.String("access-control", beforeCheck, "when a cluster gets its access control: before-check or after-check")
	connected := flag.Int("connected", 3, "clusters that answer")
	disconnected := flag.Int("disconnected", 1, "clusters whose port refuses connections")
	far := flag.String("far", "", "address (host:port) of one more cluster, the scenario's API server again, whose connection a fault cuts")
	flag.Parse()
	if *order != beforeCheck && *order != afterCheck {
		log.Fatalf("setpeers-controllers: unknown -access-control %q", *order)
	}
	logrus.SetLevel(logrus.WarnLevel)                       // Rancher tells of every start
	ctx, cancel := context.WithCancel(context.Background()) // as long as the server
	defer cancel()
	m, err := newManager(ctx, *order, *connected, *disconnected, *far)
	if err != nil {
		log.Fatalf("setpeers-controllers: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /setPeers", func(w http.ResponseWriter, _ *http.Request) {
		if err := m.setPeers(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
}

// newManager is a manager of some clusters that answer, and some that do not.
func newManager(ctx context.Context, order string, connected, disconnected int, far string) (*manager, error) {
	api, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	// The default of 5 requests a second would measure the client's own throttle.
	api.QPS, api.Burst = 1000, 2000
	scaled, err := config.NewScaledContext(*api)
	if err != nil {
		return nil, err
	}
	scaled.RunContext = ctx
	m := &manager{ctx: ctx, scaled: scaled, order: order, records: map[string]*record{}}
	for i := range connected {
		m.clusters = append(m.clusters, cluster{name: fmt.Sprintf("connected-%d", i), rest: *api})
	}
	if far != "" {
		remote := *api
		remote.Host = "https://" + far
		m.clusters = append(m.clusters, cluster{name: "far", rest: remote, far: true})
	}
	for i := range disconnected {
		address, err := refusing()
		if err != nil {
			return nil, err
		}
		m.clusters = append(m.clusters, cluster{
			name: fmt.Sprintf("disconnected-%d", i), rest: rest.Config{Host: "http://" + address}, disconnected: true,
		})
	}
	return m, nil
}

// refusing returns an address on loopback that refuses connections: its port is bound, so that no other program can
// listen there, but not listening.
func refusing() (string, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return "", err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return "", err
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		return "", err
	}
	v4, ok := bound.(*syscall.SockaddrInet4)
	if !ok {
		return "", errors.New("not an IPv4 address")
	}
	return fmt.Sprintf("127.0.0.1:%d", v4.Port), nil
}
