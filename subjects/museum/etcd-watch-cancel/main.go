// Command etcd-watch-cancel runs an etcd server. For every POST, a client that does not read its events cancels 40 watches
// and disconnects, as an API server does that restarts. In etcd before v3.5.17, the server's goroutine that has received
// the cancellations cannot confirm them, and stays.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/leakrig/leakrig/subjects/serve"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

const large = "large" // a key whose value fills the window of a stream

func main() {
	dir, err := os.MkdirTemp("", "etcd-watch-cancel-")
	if err != nil {
		log.Fatalf("etcd-watch-cancel: %v", err)
	}
	client, err := start(dir)
	if err != nil {
		log.Fatalf("etcd-watch-cancel: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /watch", func(w http.ResponseWriter, r *http.Request) {
		if err := watch(r.Context(), pb.NewWatchClient(client.ActiveConnection())); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
	if err := os.RemoveAll(dir); err != nil {
		log.Fatalf("etcd-watch-cancel: %v", err)
	}
}

// start starts the server in the folder and returns a client.
func start(dir string) (*clientv3.Client, error) {
	if err := os.Chdir(dir); err != nil {
		return nil, err
	}
	config := embed.NewConfig()
	config.Dir = "data"
	config.LogLevel = "error"
	clients, peers := url.URL{Scheme: "unix", Host: "clients:0"}, url.URL{Scheme: "unix", Host: "peers:0"} // in the folder
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	config.InitialCluster = config.Name + "=" + peers.String()
	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, err
	}
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		return nil, errors.New("the server is not ready")
	}
	// A fixed window, because it grows otherwise, until the large event fits into it.
	window := []grpc.DialOption{grpc.WithInitialWindowSize(64 << 10)}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{clients.String()}, Logger: zap.NewNop(), DialOptions: window})
	if err != nil {
		return nil, err
	}
	_, err = client.Put(context.Background(), large, strings.Repeat("x", 1<<20))
	return client, err
}

// watch opens watches on one stream, cancels them while an event waits that nobody reads, and ends the stream.
func watch(ctx context.Context, client pb.WatchClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Watch(ctx)
	if err != nil {
		return err
	}
	const watches = 40
	for id := int64(1); id <= watches; id++ {
		r := &pb.WatchCreateRequest{Key: []byte("none"), WatchId: id}
		if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}); err != nil {
			return err
		}
		if answer, err := stream.Recv(); err != nil || !answer.Created || answer.Canceled {
			return fmt.Errorf("watch %d: %v: %w", id, answer, err)
		}
	}
	r := &pb.WatchCreateRequest{Key: []byte(large), WatchId: watches + 1, StartRevision: 1}
	if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}); err != nil {
		return err
	}
	time.Sleep(200 * time.Millisecond) // until the event is on its way
	for id := int64(1); id <= watches; id++ {
		r := &pb.WatchCancelRequest{WatchId: id}
		if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: r}}); err != nil {
			return err
		}
	}
	time.Sleep(100 * time.Millisecond) // until the server has received the cancellations
	return nil
}
