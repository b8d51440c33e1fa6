// Command simulator-posts is open-simulator v0.1.3: its gin server copies the cluster for every POST to
// /api/deploy-apps or /api/scale-apps and runs a scheduler on the copy. It serves pprof, and listens on $PORT of all
// addresses, as upstream does.
//
// # The re-enacted part
//
// Open-simulator's pull request #88 fixed the incident. The module proxy has only open-simulator v0.1.3, which
// contains the fix. So the fixed variant is v0.1.3, and the leaky one is v0.1.3 with the old body of one method,
// (*Simulator).Close, restored at build time: see before-88.go in this folder, and subjects/rewrite.go. All leaking
// code is unchanged upstream code: k8s.io/kubernetes v1.20.5, k8s.io/client-go v0.20.5. The subject
// simulator-scheduler has the later stages of the incident, without re-enacted parts.
//
// # Differences from open-simulator's main
//
// utilruntime.ReallyCrash is off in all variants. Shutting the event broadcaster down while the scheduler records a
// last event panics in less than 1 of 100 POSTs, which would end the server during a run. Now the panic is logged.
// Progress bars are off. The watches of the fake clientset hold 1000 events, as set by Simulate, and more only if
// there are more nodes and pods: otherwise they would overflow in 1 of 20 POSTs, which then return 500. The scenario
// runs it on one CPU (GOMAXPROCS) and states the reason.
package main

import (
	"flag"
	"log"
	"os"
	"reflect"

	"github.com/alibaba/open-simulator/pkg/server"
	"github.com/alibaba/open-simulator/pkg/simulator"
	"github.com/pterm/pterm"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

func main() {
	nodes, pods := flag.Int("nodes", 0, "nodes of the cluster"), flag.Int("pods", 0, "pods of the cluster")
	flag.Parse()
	pterm.DisableOutput()
	utilruntime.ReallyCrash = false
	s, err := server.NewServer(os.Getenv("KUBECONFIG"), "")
	if err != nil {
		log.Fatalf("simulator-posts: %v", err)
	}
	s.Start(withRoom(int32(max(1000, *nodes+*pods)), simulator.DisablePTerm(true)))
}

// withRoom is an option that also sets the room. Simulate sets it to 1000 for every POST before it applies its
// options. The argument of an option has no name outside of its package.
func withRoom(room int32, option simulator.Option) simulator.Option {
	apply := reflect.ValueOf(option)
	return reflect.MakeFunc(apply.Type(), func(args []reflect.Value) []reflect.Value {
		watch.DefaultChanSize = room
		return apply.Call(args)
	}).Interface().(simulator.Option)
}
