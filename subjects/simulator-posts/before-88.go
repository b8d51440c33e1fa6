//go:build ignore

//leakrig:rewrite github.com/alibaba/open-simulator/pkg/simulator
package simulator

// Close ends the contexts and nothing else, as before open-simulator's pull request #88: the scheduler goes on
// waiting for its next pod, and nobody shuts the event broadcaster down.
func (sim *Simulator) Close() {
	sim.scheduleOneCancelFunc()
	sim.cancelFunc()
	close(sim.simulatorStop)
}
