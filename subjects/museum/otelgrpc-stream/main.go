// Command otelgrpc-stream opens a gRPC stream for every POST, sends one message and cancels the stream, as the client
// of a watch does. In otelgrpc before v0.22.0, the two goroutines that the interceptor starts for the stream wait for
// an end of the stream that it never sees.
package main

import (
	"context"
	"log"
	"net"
	"net/http"

	"github.com/leakrig/leakrig/subjects/serve"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"
)

const method = "/test.Echo/Stream"

func main() {
	listener := bufconn.Listen(64 << 10)
	server := grpc.NewServer(grpc.UnknownServiceHandler(echo))
	go func() { log.Fatal(server.Serve(listener)) }()

	conn, err := grpc.Dial("echo", grpc.WithInsecure(), grpc.WithStreamInterceptor(otelgrpc.StreamClientInterceptor()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }))
	if err != nil {
		log.Fatalf("otelgrpc-stream: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /stream", func(w http.ResponseWriter, r *http.Request) {
		if err := stream(r.Context(), conn); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
}

// echo answers each message of a stream with the same message.
func echo(_ interface{}, s grpc.ServerStream) error {
	for {
		var m healthpb.HealthCheckRequest
		if err := s.RecvMsg(&m); err != nil {
			return err
		}
		if err := s.SendMsg(&m); err != nil {
			return err
		}
	}
}

// stream opens a stream, exchanges one message and cancels the stream.
func stream(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	if err := s.SendMsg(&healthpb.HealthCheckRequest{Service: "echo"}); err != nil {
		return err
	}
	return s.RecvMsg(&healthpb.HealthCheckRequest{})
}
