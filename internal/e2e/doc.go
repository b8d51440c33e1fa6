// Package e2e holds the tests that need real parts: a kube-apiserver and etcd, real subjects, a
// headless Chromium. They run with `make test`, or by hand with
//
//	go test -tags e2e ./internal/e2e
//
// Each says which part it met, in a line that starts with MET; `make test` counts these lines and
// fails where a part was met by no test.
package e2e
