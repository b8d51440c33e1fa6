// Command exec-target is the pod that execs run in: it serves only its readiness. Called as ls, it lists a folder, as
// in the incident's `kubectl exec -i POD -- ls /opt`. The scenario observes the components of the node, so the
// command of an exec is irrelevant.
package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/leakrig/leakrig/subjects/serve"
)

func main() {
	if filepath.Base(os.Args[0]) == "ls" {
		list(os.Args[1:])
		return
	}
	serve.Main(http.NewServeMux())
}

// list prints the names in the folders, the root's where none is given.
func list(folders []string) {
	if len(folders) == 0 {
		folders = []string{"/"}
	}
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			fmt.Fprintln(os.Stderr, "ls:", err)
			os.Exit(2)
		}
		for _, e := range entries {
			fmt.Println(e.Name())
		}
	}
}
