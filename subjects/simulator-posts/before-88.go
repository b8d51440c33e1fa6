//go:build ignore

//leakrig:rewrite github.com/alibaba/open-simulator/pkg/simulator
package simulator

// Close ends only the contexts, as before open-simulator's pull request #88: the scheduler continues to wait for its
// next pod, and the event broadcaster is not shut down.
func (sim *Simulator) Close() {
	sim.scheduleOneCancelFunc()
	sim.cancelFunc()
	close(sim.simulatorStop)
}
