// Package e2e holds the tests that need real parts: a kube-apiserver and etcd, real subjects, a headless Chromium.
// `make test` runs them. To run them by hand:
//
//	go test -tags e2e ./internal/e2e
//
// Each test prints the parts that it used in lines that start with MET. `make test` counts these lines, and fails if
// a part was not used by any test.
package e2e
