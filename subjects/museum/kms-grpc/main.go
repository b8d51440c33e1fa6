// Command kms-grpc makes the client of a KMS plugin for every POST, encrypts with it and drops it, as an API server does
// that reloads its encryption configuration. In k8s.io/apiserver before v0.26.0, nothing closes the client's connection.
//
// The plugin is a second process of this program, so that its connections do not count.
package main

import (
	"context"
	"fmt"
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
	"k8s.io/apiserver/pkg/storage/value/encrypt/envelope"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "plugin" {
		log.Fatalf("kms-grpc: %v", plugin(os.Args[2]))
	}
	dir, err := os.MkdirTemp("", "kms-grpc-")
	if err != nil {
		log.Fatalf("kms-grpc: %v", err)
	}
	socket := filepath.Join(dir, "socket")
	cmd := exec.Command("/proc/self/exe", "plugin", socket)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		log.Fatalf("kms-grpc: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reload", func(w http.ResponseWriter, r *http.Request) {
		if err := reload(r.Context(), "unix://"+socket); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
	if err := os.RemoveAll(dir); err != nil {
		log.Fatalf("kms-grpc: %v", err)
	}
}

// reload connects to the plugin and encrypts. Since v0.26.0, the context ends the connection.
func reload(ctx context.Context, endpoint string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var service envelope.Service
	var err error
	switch connect := any(envelope.NewGRPCService).(type) {
	case func(string, time.Duration) (envelope.Service, error):
		service, err = connect(endpoint, 10*time.Second)
	case func(context.Context, string, time.Duration) (envelope.Service, error):
		service, err = connect(ctx, endpoint, 10*time.Second)
	default:
		err = fmt.Errorf("NewGRPCService is %T", connect)
	}
	if err != nil {
		return err
	}
	_, err = service.Encrypt([]byte("secret"))
	return err
}

// plugin serves the v1beta1 KMS API. The first field of each of its answers is a string or bytes, as in the message here.
func plugin(socket string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	return grpc.NewServer(grpc.UnknownServiceHandler(func(_ interface{}, s grpc.ServerStream) error {
		var m healthpb.HealthCheckRequest
		if err := s.RecvMsg(&m); err != nil {
			return err
		}
		return s.SendMsg(&healthpb.HealthCheckRequest{Service: "v1beta1"})
	})).Serve(listener)
}
