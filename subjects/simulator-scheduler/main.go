// Command simulator-scheduler is the core of the simulator-posts incident with upstream code only: every POST to
// /api/deploy-apps copies a cluster into a fake clientset, starts a real kube-scheduler on it, deploys an app, waits
// until its pods are bound, and shuts everything down, as open-simulator does.
//
// The incident had three leaks, which can be reproduced one after another:
//
//  1. The scheduler. Up to k8s.io/kubernetes v1.24, its Run returns only when scheduleOne does, which waits for the
//     next pod and ignores the end of the context. v1.25.0 closes the queue. The modfile selects the version.
//  2. The informers, if they are not stopped (-leave=informers). They keep the copy of the cluster alive: Pod.DeepCopy,
//     below syncClusterResourceList, in the fake clientset.
//  3. The event broadcaster, if it is not shut down (-leave=broadcaster): Broadcaster.loop.
//
// Nothing is re-enacted. -leave leaves upstream code running that the usual call started; the caller does not stop
// it. -one-more-pod is open-simulator's fix for the first leak: it ends the scheduler, but not the metrics recorder
// that v1.24 starts with it.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"slices"
	"strings"

	"github.com/leakrig/leakrig/subjects/serve"
	"k8s.io/apimachinery/pkg/watch"
)

// Parts that a simulation may leave running.
const (
	theInformers   = "informers"
	theBroadcaster = "broadcaster"
)

func main() {
	var c cluster
	flag.IntVar(&c.nodes, "nodes", 20, "nodes of the cluster that is copied")
	flag.IntVar(&c.pods, "pods", 100, "pods that run on it already")
	flag.IntVar(&c.replicas, "replicas", 10, "pods of the app to schedule")
	leave := flag.String("leave", "", "parts to leave running, separated by commas: informers, broadcaster")
	flag.BoolVar(&c.oneMorePod, "one-more-pod", false, "after the end, give the scheduler one more pod to wake up for")
	flag.Parse()
	for _, name := range strings.FieldsFunc(*leave, func(r rune) bool { return r == ',' }) {
		if name != theInformers && name != theBroadcaster {
			log.Fatalf("simulator-scheduler: -leave %q is neither informers nor broadcaster", name)
		}
		c.leave = append(c.leave, name)
	}
	// A fake watch panics when more events wait than this. open-simulator raises it, too.
	watch.DefaultChanSize = int32(max(1000, c.nodes+c.pods+c.replicas))

	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/deploy-apps", func(w http.ResponseWriter, _ *http.Request) {
		unscheduled, err := c.simulate()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"unscheduledPods": unscheduled})
	})
	serve.Main(mux)
}

// cluster is what every simulation copies, and how it ends.
type cluster struct {
	nodes, pods, replicas int
	leave                 []string
	oneMorePod            bool
}

func (c cluster) leaves(what string) bool { return slices.Contains(c.leave, what) }
