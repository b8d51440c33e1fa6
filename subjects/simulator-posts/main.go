// Command simulator-posts is open-simulator v0.1.3 itself: its own gin server, which copies the cluster for
// every POST to /api/deploy-apps or /api/scale-apps and runs a scheduler on the copy. It serves pprof, and
// listens on $PORT of all addresses, by its own doing.
//
// # What is re-enacted, and why
//
// The incident's fix is open-simulator's pull request #88. The module proxy has one version of
// open-simulator, v0.1.3, which contains it. So the fixed variant is v0.1.3 as it was shipped, and the
// leaky one is v0.1.3 with the body of one method, (*Simulator).Close, put back at build time: see
// before-88.go beside this file, and subjects/rewrite.go for how it is done. Everything that leaks is
// upstream's and unchanged: k8s.io/kubernetes v1.20.5, k8s.io/client-go v0.20.5. The incident's later
// stages are in the subject simulator-scheduler, with nothing re-enacted.
//
// # What differs from open-simulator's own main
//
// utilruntime.ReallyCrash is off, in all variants alike. Shutting the event broadcaster down while the
// scheduler records a last event panics in less than one of a hundred POSTs, and would end the shipped
// server in the middle of a run; now the panic is logged. Progress bars are off, too. The watches of its fake
// clientset hold the 1000 events that Simulate gives them, as shipped, and more only where there are more nodes and
// pods than that: they would overflow in one of twenty POSTs or so, which then answer 500. The scenario runs it on
// one CPU (GOMAXPROCS) and says there why.
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

// withRoom is an option that sets the room, too. Simulate sets it to 1000 for every POST, before it applies
// the options that it was given. What an option is given has no name outside of its package.
func withRoom(room int32, option simulator.Option) simulator.Option {
	apply := reflect.ValueOf(option)
	return reflect.MakeFunc(apply.Type(), func(args []reflect.Value) []reflect.Value {
		watch.DefaultChanSize = room
		return apply.Call(args)
	}).Interface().(simulator.Option)
}
