// Command konnectivity-dial dials through a konnectivity proxy for every POST and gives up before the proxy answers, as an
// API server does whose agent hangs. In konnectivity-client before v0.0.33, the tunnel of the dial stays open, with its
// gRPC connection.
//
// The proxy is a second process of this program, so that its connections do not count.
package main

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leakrig/leakrig/subjects/serve"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"sigs.k8s.io/apiserver-network-proxy/konnectivity-client/pkg/client"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "proxy" {
		log.Fatalf("konnectivity-dial: %v", proxy(os.Args[2]))
	}
	dir, err := os.MkdirTemp("", "konnectivity-dial-")
	if err != nil {
		log.Fatalf("konnectivity-dial: %v", err)
	}
	socket := filepath.Join(dir, "socket")
	cmd := exec.Command("/proc/self/exe", "proxy", socket)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		log.Fatalf("konnectivity-dial: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /dial", func(w http.ResponseWriter, r *http.Request) {
		if err := dial(r.Context(), socket); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
	if err := os.RemoveAll(dir); err != nil {
		log.Fatalf("konnectivity-dial: %v", err)
	}
}

// dial opens a tunnel and expects that its dial times out. The context of the tunnel is that of the connections through
// it, which the API server never ends.
func dial(ctx context.Context, socket string) error {
	ready, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tunnel, err := client.CreateSingleUseGrpcTunnelWithContext(ready, context.Background(), socket, grpc.WithInsecure(), grpc.WithBlock(),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return net.Dial("unix", socket) }))
	if err != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	conn, err := tunnel.DialContext(ctx, "tcp", "10.0.0.1:443")
	if err == nil {
		return errors.Join(errors.New("the dial has succeeded"), conn.Close())
	}
	return nil
}

// proxy accepts dials and never answers them.
func proxy(socket string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	return grpc.NewServer(grpc.UnknownServiceHandler(func(_ interface{}, s grpc.ServerStream) error {
		for {
			if err := s.RecvMsg(&healthpb.HealthCheckRequest{}); err != nil {
				return err
			}
		}
	})).Serve(listener)
}
