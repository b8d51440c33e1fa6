// Command nats-fetch publishes a job for every POST and fetches it with a pull consumer, as a worker does. In nats.go
// before v1.41.2, the connection keeps a status listener for every FetchBatch.
//
// The NATS server is a second process of this program, so that its memory does not count.
package main

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/leakrig/leakrig/subjects/serve"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "server" {
		log.Fatalf("nats-fetch: %v", natsServer(os.Args[2]))
	}
	dir, err := os.MkdirTemp("", "nats-fetch-")
	if err != nil {
		log.Fatalf("nats-fetch: %v", err)
	}
	jobs, subscription, err := connect(dir)
	if err != nil {
		log.Fatalf("nats-fetch: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /work", func(w http.ResponseWriter, _ *http.Request) {
		if err := work(jobs, subscription); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
	_ = os.RemoveAll(dir) // the server, which ends with this process, still writes to it
}

// connect starts the server, and creates a stream with a consumer.
func connect(dir string) (nats.JetStreamContext, *nats.Subscription, error) {
	cmd := exec.Command("/proc/self/exe", "server", dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	var url string
	if _, err := fmt.Fscanln(stdout, &url); err != nil {
		return nil, nil, err
	}
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, nil, err
	}
	jobs, err := conn.JetStream()
	if err != nil {
		return nil, nil, err
	}
	if _, err := jobs.AddStream(&nats.StreamConfig{Name: "jobs", Retention: nats.WorkQueuePolicy, Storage: nats.MemoryStorage}); err != nil {
		return nil, nil, err
	}
	subscription, err := jobs.PullSubscribe("jobs", "worker")
	return jobs, subscription, err
}

// work publishes a job and takes it.
func work(jobs nats.JetStreamContext, subscription *nats.Subscription) error {
	if _, err := jobs.Publish("jobs", []byte("job")); err != nil {
		return err
	}
	batch, err := subscription.FetchBatch(1, nats.MaxWait(10*time.Second))
	if err != nil {
		return err
	}
	for m := range batch.Messages() {
		return m.Ack()
	}
	return fmt.Errorf("no job: %w", batch.Error())
}

// natsServer serves NATS until it is killed, and prints its URL.
func natsServer(dir string) error {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		return errors.New("the server is not ready")
	}
	fmt.Println(s.ClientURL())
	s.WaitForShutdown()
	return nil
}
