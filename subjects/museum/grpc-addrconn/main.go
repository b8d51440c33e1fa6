// Command grpc-addrconn has a gRPC connection whose server moves to another address before every call, as pods do.
// In grpc-go before v1.37.1, the connection keeps the state of every address that pick_first has left.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"

	"github.com/leakrig/leakrig/subjects/serve"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/test/bufconn"
)

func main() {
	listener := bufconn.Listen(64 << 10)
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() { log.Fatal(server.Serve(listener)) }()

	c, err := connect(listener)
	if err != nil {
		log.Fatalf("grpc-addrconn: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /call", func(w http.ResponseWriter, r *http.Request) {
		if err := c.moveAndCall(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
}

type client struct {
	mu       sync.Mutex
	moves    int
	resolver *manual.Resolver
	health   healthpb.HealthClient
}

func connect(listener *bufconn.Listener) (*client, error) {
	c := &client{resolver: manual.NewBuilderWithScheme("moving")}
	c.resolver.InitialState(c.next())
	conn, err := grpc.Dial("moving:///health", grpc.WithInsecure(), grpc.WithResolvers(c.resolver),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }))
	if err != nil {
		return nil, err
	}
	c.health = healthpb.NewHealthClient(conn)
	return c, nil
}

// next returns another address than the one before.
func (c *client) next() resolver.State {
	c.moves++
	return resolver.State{Addresses: []resolver.Address{{Addr: fmt.Sprintf("pod-%d", c.moves%2)}}}
}

// moveAndCall resolves the name to another address and calls the server there.
func (c *client) moveAndCall(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resolver.UpdateState(c.next())
	_, err := c.health.Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	return err
}
