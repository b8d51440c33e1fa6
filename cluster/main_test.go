package cluster

import (
	"os"
	"testing"
)

// The providers start this binary again, as a child of kind's and as what is to become etcd.
func TestMain(m *testing.M) {
	Child()
	os.Exit(m.Run())
}
