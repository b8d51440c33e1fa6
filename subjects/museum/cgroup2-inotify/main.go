// Command cgroup2-inotify asks for the memory events of a cgroup that is already gone, as a shim does whose container
// ends at once. In containerd/cgroups before v1.0.3, the goroutine that fails to watch it reports its error on a
// channel that nobody has.
package main

import (
	"errors"
	"net/http"
	"time"

	cgroupsv2 "github.com/containerd/cgroups/v2"
	"github.com/leakrig/leakrig/subjects/serve"
)

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /events", func(w http.ResponseWriter, _ *http.Request) {
		if err := events(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	serve.Main(mux)
}

// events subscribes to the events of a cgroup that does not exist.
func events() error {
	m, err := cgroupsv2.LoadManager("/sys/fs/cgroup", "/leakrig-ended")
	if err != nil {
		return err
	}
	_, failures := m.EventChan()
	if failures == nil { // before v1.0.3
		return nil
	}
	select {
	case <-failures:
		return nil
	case <-time.After(10 * time.Second):
		return errors.New("no error for a cgroup that does not exist")
	}
}
