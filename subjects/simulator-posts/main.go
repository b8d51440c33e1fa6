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
// server in the middle of a run; now the panic is logged. Progress bars are off, too.
package main

import (
	"log"
	"os"

	"github.com/alibaba/open-simulator/pkg/server"
	"github.com/alibaba/open-simulator/pkg/simulator"
	"github.com/pterm/pterm"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func main() {
	pterm.DisableOutput()
	utilruntime.ReallyCrash = false
	s, err := server.NewServer(os.Getenv("KUBECONFIG"), "")
	if err != nil {
		log.Fatalf("simulator-posts: %v", err)
	}
	s.Start(simulator.DisablePTerm(true))
}
